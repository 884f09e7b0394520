#include "comm/sum_in_order.h"

#include <algorithm>
#include <array>
#include <cstdint>

#include "backend/cpu/ordered_sum.h"

namespace shardlm {
namespace {

// In groups, each but the first begun by the sum so far: the same chain of additions.
void sum_floats(std::span<const std::byte* const> addends, std::size_t n, float* sum) {
  std::array<const float*, 16> group;
  std::size_t filled = 0;
  for (const std::byte* addend : addends) {
    if (filled == group.size()) {
      sum_floats_in_order(group, n, sum);
      group[0] = sum;
      filled = 1;
    }
    group[filled++] = reinterpret_cast<const float*>(addend);
  }
  sum_floats_in_order(std::span(group).first(filled), n, sum);
}

// As unsigned, whose overflow is defined; in blocks, whose sum stays in the first cache.
void sum_integers(std::span<const std::byte* const> addends, std::size_t n, std::uint64_t* sum) {
  std::array<std::uint64_t, 256> block;
  for (std::size_t at = 0; at < n; at += block.size()) {
    const std::size_t count = std::min(block.size(), n - at);
    block.fill(0);
    for (const std::byte* addend : addends) {
      const auto* const from = reinterpret_cast<const std::uint64_t*>(addend) + at;
      for (std::size_t i = 0; i < count; ++i) block[i] += from[i];
    }
    std::copy_n(block.data(), count, sum + at);
  }
}

}  // namespace

void sum_in_order(std::span<const std::byte* const> addends, SumType type, std::size_t n,
                  std::byte* sum) {
  if (type == SumType::f32) {
    sum_floats(addends, n, reinterpret_cast<float*>(sum));
  } else {
    sum_integers(addends, n, reinterpret_cast<std::uint64_t*>(sum));
  }
}

}  // namespace shardlm
