// Bytes of messages between ranks of one job (same machine type: native byte order).
#pragma once

#include <cstddef>
#include <cstring>
#include <span>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/error.h"

namespace shardlm {

/// Appends values to a message; the buffer keeps its capacity from step to step.
class ByteWriter {
 public:
  explicit ByteWriter(std::vector<std::byte>& to) : to_(to) { to_.clear(); }

  template <typename T>
  void put(const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    append(&value, sizeof value);
  }

  /// Length, then the elements.
  template <typename T>
  void put_all(std::span<const T> values) {
    static_assert(std::is_trivially_copyable_v<T>);
    put<std::uint64_t>(values.size());
    append(values.data(), values.size_bytes());
  }
  template <typename T>
  void put_all(const std::vector<T>& values) {
    put_all(std::span<const T>(values));
  }
  void put_all(std::string_view text) { put_all(std::span<const char>(text)); }

 private:
  void append(const void* from, std::size_t n) {
    if (n == 0) return;
    const std::size_t at = to_.size();
    to_.resize(at + n);
    std::memcpy(to_.data() + at, from, n);
  }
  std::vector<std::byte>& to_;
};

/// Takes values in the order in which they were put; running past the end is a bug of ours.
class ByteReader {
 public:
  explicit ByteReader(std::span<const std::byte> from) : from_(from) {}

  template <typename T>
  T get() {
    static_assert(std::is_trivially_copyable_v<T>);
    T value;
    take(&value, sizeof value);
    return value;
  }

  template <typename T>
  void get_all(std::vector<T>& to) {
    static_assert(std::is_trivially_copyable_v<T>);
    const auto n = get<std::uint64_t>();
    check(n <= from_.size() / sizeof(T), "message shorter than it says");
    to.resize(n);
    take(to.data(), n * sizeof(T));
  }

  bool empty() const { return from_.empty(); }

 private:
  void take(void* to, std::size_t n) {
    check(n <= from_.size(), "message ends too early");
    if (n != 0) std::memcpy(to, from_.data(), n);
    from_ = from_.subspan(n);
  }
  std::span<const std::byte> from_;
};

}  // namespace shardlm
