// Products of int8 activations with int8 and int4 weights.
//
// For each block of 32 inputs the sum of the products of whole numbers is exact; it is scaled by
// (scale of the weights * scale of the activations) and added to the output with one fused
// multiply-add (where the instruction set has it: all but SSE4 and plain scalar code), blocks in
// ascending order, starting at the bias. So an output has the same bits on every instruction set
// with fused multiply-adds, at any shard width, batch and number of threads.
#pragma once

#include <cstdint>

#include "backend/cpu/fixed_rows.h"
#include "backend/cpu/panel_layout.h"
#include "backend/cpu/quantised_rows.h"

namespace shardlm {

/// Some rows times some columns of one panel.
struct QuantisedProduct {
  const QuantisedRows* x = nullptr;
  std::int64_t first_row = 0, rows = 0;
  DType dtype = DType::q8;           ///< of the weights: q8 or q4
  const std::byte* panel = nullptr;  ///< see panel_layout.h, 64-byte aligned
  std::int64_t first_column = 0, columns = PanelLayout::kOutputs;  ///< both multiples of 16
  const float* init = nullptr;                                     ///< `columns` floats
  float* out = nullptr;                                            ///< `columns` floats a row
  std::int64_t out_stride = 0;
  const std::byte* next_panel = nullptr;  ///< to be brought near meanwhile; may be null
  FixedSums* fixed = nullptr;             ///< as PanelProduct's, blocks of whole blocks of 32
  std::int64_t slice_blocks() const;      ///< of 32 inputs, over which all rows pass at once
};
void multiply_panel_quantised(const QuantisedProduct& product);

/// The same with the dot-product instructions of AVX-512 VNNI: only where cpu_features() has them.
void multiply_panel_vnni(const QuantisedProduct& product);

/// Consecutive blocks of a panel, int4 weights unpacked to bytes or not.
struct WeightBlocks {
  const std::byte* scales;  ///< of the first block
  std::int64_t scales_step;
  const std::byte* values;  ///< of the first block: [8][64][4], or int4's [4][64][4]
  std::int64_t values_step;
  std::int64_t first, count;  ///< blocks
  std::int32_t zero;          ///< what is stored for 0: 128 or 8

  WeightBlocks(DType dtype, const std::byte* panel, std::int64_t first_block, std::int64_t blocks)
      : scales_step(static_cast<std::int64_t>(PanelLayout{dtype}.tile_bytes())),
        values_step(scales_step),
        first(first_block),
        count(blocks),
        zero(dtype == DType::q8 ? 128 : 8) {
    scales = panel + first_block * scales_step;
    values = scales + PanelLayout::kScaleBytes;
  }
};

/// With more rows than a kernel takes at once, a panel is worked off in slices of so many blocks
/// (64 KiB of bytes), which stay in the level-2 cache while all rows pass.
inline constexpr std::int64_t kSliceBlocks = 32;
inline std::int64_t QuantisedProduct::slice_blocks() const {
  return fixed == nullptr ? kSliceBlocks : fixed->block / PanelLayout::kInputs;
}
inline constexpr std::int64_t kUnpackedBlockBytes = PanelLayout::kInputs * PanelLayout::kOutputs;

}  // namespace shardlm
