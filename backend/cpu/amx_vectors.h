// What surrounds the products of tiles, in vectors of every instruction set.
#pragma once

#include <cstdint>

#include "base/dtype.h"

namespace shardlm {

/// `length` floats to bfloat16, to nearest even, NaNs stay NaNs: 32 of them a line, lines 16 * 64
/// bytes apart, the last one filled up with zeros.
void amx_round_row(const float* x, std::int64_t length, std::uint16_t* to);

/// The values of a block of a panel to signed bytes: [8 groups of 4 inputs][64][4].
void amx_signed_block(DType dtype, const std::byte* from, std::int8_t* to);

/// out[r][j] = init[j] + sums[r][j]; sums [rows][32].
void amx_add_sums(const float* sums, std::int64_t rows, const float* init, float* out,
                  std::int64_t out_stride);

/// Up to four blocks' products of whole numbers, 16 rows by 32 columns.
struct AmxBlockSums {
  static constexpr std::int64_t kBlocks = 4, kColumns = 32;

  const std::int32_t* sums;  ///< of block b at sums + b * sums_step: [16][32]
  std::int64_t sums_step;
  std::int64_t blocks;
  const float* x_scales;  ///< row r's, block b's at x_scales[r * x_step + b]
  std::int64_t x_step;
  const std::byte* w_scales;  ///< float16, of block b at w_scales + b * w_step: [32]
  std::int64_t w_step;
};
/// totals[r][j] += sums * (scale of the weights * scale of the activations), blocks in ascending
/// order, as matmul_quantised.h says. totals: [16][32].
void amx_add_blocks(const AmxBlockSums& blocks, float* totals);

}  // namespace shardlm
