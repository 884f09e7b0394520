// How a weight matrix lies in memory: panels of 64 outputs, one after another, each a contiguous
// stream of tiles of 32 inputs, in the order in which the kernels read it. The same whatever the
// instruction set: a lane of 32 bits holds the neighbouring inputs of one output, as dot-product
// instructions and matrix tiles want them.
//
//   f32   [inputs][64 outputs]
//   f16   [inputs][64 outputs]
//   bf16  [pairs of inputs][64 outputs][2]
//   q8    for each block of 32 inputs: float16 scales [64 outputs], then
//         [8 groups of 4 inputs][64 outputs][4] of uint8 = value + 128, value in -127 … 127
//   q4    for each block of 32 inputs: float16 scales [64 outputs], then
//         [4 pairs of groups][64 outputs][4] bytes: the low four bits are input 8 p + i of the
//         block, the high ones 8 p + 4 + i; each value + 8, value in -8 … 7
//
// Inputs behind the last and outputs behind the last are zeros (scale 0, or value 0).
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/dtype.h"

namespace shardlm {

struct PanelLayout {
  static constexpr std::int64_t kOutputs = 64;     ///< of a panel
  static constexpr std::int64_t kInputs = 32;      ///< of a tile
  static constexpr std::size_t kScaleBytes = 128;  ///< before the values of a q8 or q4 tile

  DType dtype = DType::f32;
  std::int64_t in = 0;

  std::int64_t tiles() const { return (in + kInputs - 1) / kInputs; }
  /// Of a whole tile: where tile t + 1 begins after tile t.
  std::size_t tile_bytes() const;
  /// Of a panel: whole tiles in q8 and q4, whole pairs in bf16; a multiple of 64.
  std::size_t panel_bytes() const;
};

/// Packs a tile. `values`: [32][64] floats, zeros behind the last output; the first `inputs`
/// (1 … 32) rows hold values, those behind are zeros. Rounds to nearest even. Scales, rounded to
/// float16 before values are divided by them: q8 the largest magnitude / 127; q4 the value of the
/// largest magnitude (the first of equals) / -8, -7, -7.5 or -8.5, whichever leaves the smallest
/// sum of squared errors, the first of equals; values beyond -8 … 7 are cut. A block with a NaN or
/// an infinity has the scale NaN, and so all its weights. The same bytes on every instruction set.
void pack_tile(DType dtype, const float* values, std::int64_t inputs, std::byte* to);

/// The inverse, `inputs` rows of 64: what a weight is worth.
void unpack_tile(DType dtype, const std::byte* from, std::int64_t inputs, float* values);

/// One output of a panel: `layout.in` floats.
void unpack_output(const PanelLayout& layout, const std::byte* panel, std::int64_t output,
                   float* values);

}  // namespace shardlm
