// A rank's own addend in the host's memory, where the reducers by messages want it.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "backend/backend.h"
#include "comm/wire_codec.h"

namespace shardlm {

class HeldAddend {
 public:
  explicit HeldAddend(Backend& backend) : backend_(backend) {}

  /// Memory where a back end of the host may write its next addend: no copy is then taken.
  std::optional<Tensor> offer(std::int64_t rows, std::int64_t cols, DType dtype);

  /// The addend's elements, contiguous: where they are if they were written in what was offered
  /// (to the rows of that in turn, if it comes in several), else a copy. They stay until the next
  /// offer or the next copy.
  std::byte* take(const Tensor& addend);

  static SumType type_of(DType dtype);

 private:
  struct alignas(64) Line {
    std::byte bytes[64];
  };
  std::byte* data() { return lines_.data()->bytes; }
  void grow(std::size_t bytes);
  bool holds(const Tensor& addend, std::size_t bytes);
  void copy(const Tensor& addend, std::size_t bytes);

  Backend& backend_;
  std::vector<Line> lines_;  ///< only grows
};

}  // namespace shardlm
