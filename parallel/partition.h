// Who owns what: pure arithmetic.
#pragma once

#include <cstdint>

namespace shardlm {

struct Range {
  std::int64_t begin = 0, end = 0;
  std::int64_t size() const { return end - begin; }
  bool contains(std::int64_t i) const { return begin <= i && i < end; }
  bool operator==(const Range&) const = default;
};

/// The elements of a range of units, `width` to a unit.
inline Range scaled(Range units, std::int64_t width) {
  return {units.begin * width, units.end * width};
}

/// `n_units` things (heads, MLP columns, vocabulary rows) over `size` ranks in contiguous shares
/// whose sizes differ by at most one, larger ones first. Ranks beyond the units own none. With
/// `block` above 1 the units are dealt in blocks of so many, of which the last may be short.
class Partition {
 public:
  Partition() = default;
  Partition(std::int64_t n_units, int size, std::int64_t block = 1)
      : n_units_(n_units), size_(size), block_(block) {}
  Range of(int rank) const;
  std::int64_t n_units() const { return n_units_; }
  int size() const { return size_; }
  std::int64_t block() const { return block_; }

 private:
  std::int64_t n_units_ = 0;
  int size_ = 1;
  std::int64_t block_ = 1;
};

}  // namespace shardlm
