// Sums of addends in their order: one chain of additions an element, the same bits wherever and in
// whatever pieces it is computed.
#pragma once

#include <cstddef>
#include <span>

#include "backend/tensor.h"
#include "comm/wire_codec.h"

namespace shardlm {

constexpr SumType sum_type(DType dtype) {
  return dtype == DType::i64 ? SumType::fixed64 : SumType::f32;
}

/// sum[i] = addends[0][i] + addends[1][i] + … of n elements. `sum` may be one of the addends; other
/// overlaps may not be. All are aligned to their elements.
void sum_in_order(std::span<const std::byte* const> addends, SumType type, std::size_t n,
                  std::byte* sum);

/// sum[i] += addend[i].
void add_to_sum(const std::byte* addend, SumType type, std::size_t n, std::byte* sum);

}  // namespace shardlm
