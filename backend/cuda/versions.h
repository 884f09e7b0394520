// Versions of the libraries of the CUDA back end.
#pragma once

namespace shardlm::cuda {

/// cuBLASLt's number: 130100 is 13.1.0.
int cublas_version();

}  // namespace shardlm::cuda
