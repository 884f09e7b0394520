// The residual stream: sums of addends, and LayerNorm.
#pragma once

#include <cuda_runtime_api.h>

#include <span>

#include "backend/cuda/kernels/view.h"

namespace shardlm::cuda {

/// Addends of one update_residual() at most.
inline constexpr int kMaxAddends = 64;

struct NormParams {
  const float* weight = nullptr;  ///< [n] in device memory
  const float* bias = nullptr;    ///< [n]
  float epsilon = 1e-5F;
};

/// out = (x - mean) / sqrt(variance + epsilon) * weight + bias, row by row: mean, then the mean
/// square of the differences, both in float32. x [T, n] float32, out [T, n] of any dtype; `out` may
/// be `x`.
void layer_norm(cudaStream_t stream, const MatrixView& x, const NormParams& norm,
                const MatrixView& out);

struct ResidualRows {
  MatrixView residual;               ///< [T, n] float32, updated in place
  const float* bias = nullptr;       ///< [n] or none
  const NormParams* norm = nullptr;  ///< none: `normed` stays untouched
  MatrixView normed = {};            ///< [T, n] of any dtype: layer_norm(residual)
};

/// residual[t] += addends[0][t] + addends[1][t] + … + bias, summed in this order in float32; then
/// the norm. 1 to kMaxAddends addends [T, n] of one dtype.
void update_residual(cudaStream_t stream, std::span<const MatrixView> addends,
                     const ResidualRows& update);

}  // namespace shardlm::cuda
