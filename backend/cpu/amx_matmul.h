// Products of many rows of activations with bf16, int8 and int4 weights by AMX.
//
// int8, int4: the bits of matmul_quantised.h's other kernels.
// bf16: activations are rounded to bfloat16, to nearest even. Of each 32 inputs the products with
// even and those with odd inputs are two chains of fused multiply-adds from zero; their sum is
// added to the output's sum, tiles in ascending order; the bias is added last. All in float32, to
// nearest even, denormals (inputs too) as zeros. So an output depends on its own row and column
// alone, whatever the batch, the shard's width and the threads; but its bits are not those of
// multiply_panel_bf16, which rounds no activation. Matmul chooses by the number of rows: from
// kAmxRows on AMX, below (decoding) the other.
#pragma once

#include <cstdint>
#include <vector>

#include "backend/cpu/matmul_quantised.h"
#include "backend/cpu/panel_layout.h"

namespace shardlm {

/// From so many rows on AMX is used: two tiles, which make the most of each load of weights. Below,
/// memory is the limit, and decoding of up to 31 sequences keeps the bits of decoding one.
inline constexpr std::int64_t kAmxRows = 32;
/// Columns of a product start and end at multiples of this.
inline constexpr std::int64_t kAmxColumns = 32;

/// Rows of activations as bfloat16 in the order of tiles: [tiles of 16 rows][tiles of 32
/// inputs][16][32], zeros behind the last row and input.
class AmxRows {
 public:
  static constexpr std::int64_t kRows = 16, kInputs = PanelLayout::kInputs;

  /// Room for `rows` rows of `length` values, contents undefined. Allocates only to grow.
  void resize(std::int64_t rows, std::int64_t length);
  std::int64_t row_tiles() const { return (rows_ + kRows - 1) / kRows; }
  std::int64_t input_tiles() const { return (length_ + kInputs - 1) / kInputs; }
  std::int64_t length() const { return length_; }
  /// Fills tiles of rows [begin, end) from x, row r at x + r * stride. Different threads may fill
  /// different ones.
  void fill(const float* x, std::int64_t stride, std::int64_t begin, std::int64_t end);
  /// Tiles of inputs one after another.
  const std::uint16_t* tiles(std::int64_t row_tile) const {
    return lines_[static_cast<std::size_t>(row_tile * input_tiles() * kRows)].values;
  }

 private:
  struct alignas(64) Line {
    std::uint16_t values[kInputs];
  };
  std::int64_t rows_ = 0, length_ = 0;
  std::vector<Line> lines_;
};

/// Some rows times some columns of one panel of bf16.
struct AmxProduct {
  const AmxRows* x = nullptr;
  std::int64_t first_row = 0, rows = 0;                            ///< the first a multiple of 16
  const std::byte* panel = nullptr;                                ///< see panel_layout.h
  std::int64_t first_column = 0, columns = PanelLayout::kOutputs;  ///< both multiples of 32
  const float* init = nullptr;                                     ///< `columns` floats
  float* out = nullptr;                                            ///< `columns` floats a row
  std::int64_t out_stride = 0;
  const std::byte* next_panel = nullptr;  ///< to be brought near meanwhile; may be null
};
/// Only where cpu_features() has amx_bf16.
void multiply_panel_amx(const AmxProduct& product);

/// Whether the following is the one to use: kAmxRows rows at least, in halves of a panel.
bool fits_amx(const QuantisedProduct& product);
/// Only where cpu_features() has amx_int8, of 16 rows at least, and in halves of a panel.
void multiply_panel_amx(const QuantisedProduct& product);

}  // namespace shardlm
