// Activations, alone or with the bias before them.
#pragma once

#include <cuda_runtime_api.h>

#include <optional>

#include "backend/backend.h"
#include "backend/cuda/kernels/view.h"

namespace shardlm::cuda {

/// x = activation(x), in place, computed in float32. NaN stays NaN.
void activate(cudaStream_t stream, Activation kind, const MatrixView& x);

/// x = x + bias, then the activation if there is one; in place, computed in float32 and rounded
/// once. bias: [1, n] of any dtype.
void add_bias(cudaStream_t stream, const MatrixView& bias, std::optional<Activation> kind,
              const MatrixView& x);

}  // namespace shardlm::cuda
