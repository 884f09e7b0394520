// Products with bf16 weights by tiles; see amx_sums-inl.h.
#pragma once

#include <algorithm>
#include <cstring>

#include "backend/cpu/amx_sums-inl.h"

namespace shardlm::amx {

/// One or two tiles of rows by 32 columns over all inputs.
struct Bf16Part {
  const std::uint16_t* x;  // of the first tile of rows
  std::int64_t x_step;     // to the second
  std::int64_t input_tiles;
  const std::byte* w;     // whole tiles of 32 inputs
  const std::byte* last;  // the last tile, filled up with zeros where the panel ends early
};

template <int kRowTiles, class Tiles>
SHARDLM_AMX inline void multiply_part(Tiles& tiles, const Bf16Part& part, Ahead& ahead,
                                      float* sums) {
  zero_sums<kRowTiles>(tiles);
  for (std::int64_t k = 0; k < part.input_tiles; ++k) {
    const std::byte* w = k + 1 == part.input_tiles ? part.last : part.w + k * kBf16TileBytes;
    const std::uint16_t* x = part.x + k * AmxRows::kRows * AmxRows::kInputs;
    tiles.template load<6>(w, kWeightStride);
    tiles.template load<4>(x, kLine);
    tiles.template dot_bf16<0, 4, 6>();
    tiles.template load<7>(w + kLine, kWeightStride);
    tiles.template dot_bf16<1, 4, 7>();
    if constexpr (kRowTiles == 2) {
      tiles.template load<5>(x + part.x_step, kLine);
      tiles.template dot_bf16<2, 5, 6>();
      tiles.template dot_bf16<3, 5, 7>();
    }
    ahead.step();
  }
  store_sums<kRowTiles>(tiles, sums);
}

/// See multiply_panel_amx.
template <class Tiles>
SHARDLM_AMX void multiply_bf16(const AmxProduct& p) {
  alignas(64) float sums[2 * kTileSums];
  alignas(64) std::byte last[kBf16TileBytes];
  const std::int64_t inputs = p.x->length(), input_tiles = p.x->input_tiles();
  const std::int64_t row_tiles = (p.rows + AmxRows::kRows - 1) / AmxRows::kRows;
  const std::byte* last_tile = p.panel;
  if (input_tiles > 0) last_tile += (input_tiles - 1) * kBf16TileBytes;
  if (inputs % AmxRows::kInputs != 0) {
    const std::int64_t pairs = (inputs % AmxRows::kInputs + 1) / 2;
    std::memcpy(last, last_tile, static_cast<std::size_t>(pairs * kWeightStride));
    std::memset(last + pairs * kWeightStride, 0,
                static_cast<std::size_t>(kBf16TileBytes - pairs * kWeightStride));
    last_tile = last;
  }
  const std::int64_t steps = (row_tiles + 1) / 2 * (p.columns / kAmxColumns) * input_tiles;
  Ahead ahead(p.next_panel, (inputs + 1) / 2 * kWeightStride, std::max<std::int64_t>(steps, 1));
  Tiles tiles(kBf16Shapes);
  for (std::int64_t t = 0; t < row_tiles; t += 2) {
    const std::int64_t row = t * AmxRows::kRows;
    for (std::int64_t c = 0; c < p.columns; c += kAmxColumns) {
      const std::int64_t offset = (p.first_column + c) * 4;
      const Bf16Part part{.x = p.x->tiles(p.first_row / AmxRows::kRows + t),
                          .x_step = input_tiles * AmxRows::kRows * AmxRows::kInputs,
                          .input_tiles = input_tiles,
                          .w = p.panel + offset,
                          .last = last_tile + offset};
      t + 1 < row_tiles ? multiply_part<2>(tiles, part, ahead, sums)
                        : multiply_part<1>(tiles, part, ahead, sums);
      amx_add_sums(sums, std::min(p.rows - row, 2 * AmxRows::kRows), p.init + c,
                   p.out + row * p.out_stride + c, p.out_stride);
    }
  }
}

}  // namespace shardlm::amx
