#include "comm/sum_in_order.h"

#include <algorithm>
#include <cstdint>

namespace shardlm {
namespace {

constexpr std::size_t kAtOnce = 256;  // elements: their sum stays in the first cache

template <class T>
const T* elements(const std::byte* memory) {
  return reinterpret_cast<const T*>(memory);
}

template <class T>
void sum_two(const T* a, const T* b, std::size_t n, T* sum) {
  for (std::size_t i = 0; i < n; ++i) sum[i] = static_cast<T>(a[i] + b[i]);
}

template <class T>
void sum_all(std::span<const std::byte* const> addends, std::size_t n, T* sum) {
  if (addends.size() == 2) {
    return sum_two(elements<T>(addends[0]), elements<T>(addends[1]), n, sum);
  }
  T block[kAtOnce];
  for (std::size_t at = 0; at < n; at += kAtOnce) {
    const std::size_t count = std::min(kAtOnce, n - at);
    std::copy_n(elements<T>(addends[0]) + at, count, block);
    for (const std::byte* addend : addends.subspan(1)) {
      sum_two(block, elements<T>(addend) + at, count, block);
    }
    std::copy_n(block, count, sum + at);
  }
}

}  // namespace

// Fixed point is added as unsigned, whose overflow is defined.
void sum_in_order(std::span<const std::byte* const> addends, SumType type, std::size_t n,
                  std::byte* sum) {
  if (type == SumType::f32) {
    sum_all(addends, n, reinterpret_cast<float*>(sum));
  } else {
    sum_all(addends, n, reinterpret_cast<std::uint64_t*>(sum));
  }
}

void add_to_sum(const std::byte* addend, SumType type, std::size_t n, std::byte* sum) {
  const std::byte* const both[] = {sum, addend};
  sum_in_order(both, type, n, sum);
}

}  // namespace shardlm
