#include "backend/cuda/versions.h"

#include <cublasLt.h>

namespace shardlm::cuda {

int cublas_version() { return static_cast<int>(cublasLtGetVersion()); }

}  // namespace shardlm::cuda
