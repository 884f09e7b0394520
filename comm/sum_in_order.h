// Sums of addends in their order: one chain of additions an element, the same bits wherever and in
// whatever pieces it is computed.
#pragma once

#include <cstddef>
#include <span>

#include "comm/wire_codec.h"

namespace shardlm {

/// sum[i] = addends[0][i] + addends[1][i] + … of n elements. `sum` may be the first of the addends;
/// other overlaps may not be. All are aligned to their elements.
void sum_in_order(std::span<const std::byte* const> addends, SumType type, std::size_t n,
                  std::byte* sum);

}  // namespace shardlm
