// The two loops over a vocabulary that are worth SIMD, on chunks of a fixed size. The instruction
// set is chosen at run time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/philox.h"

namespace shardlm {

/// Most columns of a chunk: its buffers stay in the first-level cache.
inline constexpr std::size_t kLogitChunk = 512;
/// Spans given to these functions are a multiple of this long (and at most a chunk).
inline constexpr std::size_t kLogitGroup = 16;

/// weight[i] = exp(x[i] / divisor - shift), within 2 ulp; 0 for x[i] = -infinity. The caller
/// chooses shift = max / divisor, so that nothing overflows. Both spans are equally long.
void shifted_exp(std::span<const float> x, double divisor, double shift, std::span<double> weight);

/// u[i] = uniform(key, first_id + i), bit for bit.
void uniforms(const NoiseKey& key, std::int32_t first_id, std::span<double> u);

}  // namespace shardlm
