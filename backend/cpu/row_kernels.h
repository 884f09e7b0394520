// Ops on one row of activations.
#pragma once

#include <cstdint>
#include <span>

#include "backend/backend.h"

namespace shardlm {

/// out = (x - mean) / sqrt(variance + epsilon) * weight + bias; mean, then the mean square of the
/// differences, both in float32. `out` may be `x`.
void layer_norm_row(const float* x, const LayerNormParams& norm, std::int64_t n, float* out);

/// residual[i] += addends[0][i] + addends[1][i] + … + bias[i], summed in this order; `bias` may be
/// null. The addends are row `row` of each tensor. In fixed point the integers' sum is one addend.
void add_to_row(std::span<const Tensor> addends, std::int64_t row, const float* bias,
                std::int64_t n, float* residual);

/// In place, within 4 * 2^-24 * |x| of the formulas of backend.h (tanh: of its value). NaN stays
/// NaN.
void activate_row(Activation kind, std::int64_t n, float* x);

}  // namespace shardlm
