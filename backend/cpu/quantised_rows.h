// Activations as bytes, for products with int8 and int4 weights.
#pragma once

#include <cstdint>
#include <vector>

#include "base/dtype.h"

namespace shardlm {

/// Rows of activations in blocks of 32 neighbouring values: x = scale * q. With most = max |x| of
/// the block: scale = most * (1 / 127), q = x * (127 / most) to the nearest whole number, of two
/// equally near the even one; each step in float32. Blocks of magnitudes below 2^-100 count as
/// zeros. A block with a NaN or an infinity has the scale NaN: what it is multiplied with becomes
/// NaN. The last block is filled up with zeros. A block depends on its own values alone.
class QuantisedRows {
 public:
  static constexpr std::int64_t kBlock = kQuantBlock;

  /// Room for `rows` rows of `length` values, contents undefined. Allocates only to grow.
  void resize(std::int64_t rows, std::int64_t length);
  /// Fills rows [begin, end) from x, row r at x + r * stride. Different threads may fill different
  /// rows.
  void fill(const float* x, std::int64_t stride, std::int64_t begin, std::int64_t end);

  std::int64_t rows() const { return rows_; }
  std::int64_t blocks() const { return blocks_; }  ///< of a row
  /// [blocks][32], -127 … 127.
  const std::int8_t* values(std::int64_t row) const {
    return values_.data() + row * blocks_ * kBlock;
  }
  const float* scales(std::int64_t row) const { return scales_.data() + row * blocks_; }
  /// The sum of a block's values, for weights that are stored with an offset.
  const std::int32_t* sums(std::int64_t row) const { return sums_.data() + row * blocks_; }

 private:
  std::int64_t rows_ = 0, length_ = 0, blocks_ = 0;
  std::vector<std::int8_t> values_;
  std::vector<float> scales_;
  std::vector<std::int32_t> sums_;
};

}  // namespace shardlm
