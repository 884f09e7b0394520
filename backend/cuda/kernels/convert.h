#pragma once

#include <cuda_runtime_api.h>

#include "backend/cuda/kernels/view.h"

namespace shardlm::cuda {

/// to = from, element by element, rounded to nearest even. Same shape; any dtypes, any strides.
void convert(cudaStream_t stream, const MatrixView& from, const MatrixView& to);

}  // namespace shardlm::cuda
