// CUDA's answers as exceptions, for host code.
#pragma once

#include <cuda_runtime_api.h>

namespace shardlm::cuda {

/// Error unless `code` is cudaSuccess: ExitCode::resources, with CUDA's own name and text. `doing`:
/// "copying ids to the device".
void check_cuda(cudaError_t code, const char* doing);

}  // namespace shardlm::cuda
