// The sum of several arrays in their order.
#pragma once

#include <cstddef>
#include <span>

namespace shardlm {

/// sum[i] = addends[0][i] + addends[1][i] + …, n of each. `sum` may be the first of the addends.
void sum_floats_in_order(std::span<const float* const> addends, std::size_t n, float* sum);

}  // namespace shardlm
