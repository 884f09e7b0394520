// Integer arithmetic on numbers that a file supplied: none instead of a wrapped result.
#pragma once

#include <concepts>
#include <optional>

namespace shardlm {

template <std::integral T>
constexpr std::optional<T> checked_mul(T a, T b) {
  T result = 0;
  if (__builtin_mul_overflow(a, b, &result)) return std::nullopt;
  return result;
}

template <std::integral T>
constexpr std::optional<T> checked_add(T a, T b) {
  T result = 0;
  if (__builtin_add_overflow(a, b, &result)) return std::nullopt;
  return result;
}

}  // namespace shardlm
