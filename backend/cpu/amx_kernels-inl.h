// The kernels of amx_matmul.h, over any Tiles with the functions of AmxTiles. The file that
// includes it says in SHARDLM_AMX what functions with tiles are marked with (nothing, for tiles
// that are emulated).
#pragma once

#include <algorithm>
#include <cstring>

#include "backend/cpu/amx_matmul.h"
#include "backend/cpu/amx_shapes.h"
#include "backend/cpu/amx_vectors.h"

namespace shardlm::amx {

// Tiles 0 … 3 are sums, of row tile r and column tile c number 2 r + c; 4 and 5 activations, 6 and
// 7 weights: four products for four loads.
inline constexpr AmxShapes kBf16Shapes = {
    {{16, 64}, {16, 64}, {16, 64}, {16, 64}, {16, 64}, {16, 64}, {16, 64}, {16, 64}}};
inline constexpr AmxShapes kInt8Shapes = {
    {{16, 64}, {16, 64}, {16, 64}, {16, 64}, {16, 32}, {16, 32}, {8, 64}, {8, 64}}};
inline constexpr std::int64_t kLine = 64;                                 // bytes
inline constexpr std::int64_t kWeightStride = PanelLayout::kOutputs * 4;  // bytes
inline constexpr std::int64_t kSumsStride = kAmxColumns * 4;              // bytes
inline constexpr std::int64_t kTileSums = AmxRows::kRows * kAmxColumns;   // of two tiles abreast
inline constexpr std::int64_t kBf16TileBytes = AmxRows::kInputs / 2 * kWeightStride;

/// Memory to be brought near in even steps.
struct Ahead {
  const std::byte* at;
  std::int64_t lines;  // a step

  Ahead(const std::byte* from, std::int64_t bytes, std::int64_t steps)
      : at(from), lines(from == nullptr ? 0 : (bytes / kLine + steps - 1) / steps) {}
  void step() {
    for (std::int64_t i = 0; i < lines; ++i, at += kLine) __builtin_prefetch(at, 0, 2);
  }
};

/// Stores the sums of kRowTiles by two tiles as [kRowTiles * 16][32].
template <int kRowTiles, class Tiles>
SHARDLM_AMX inline void store_sums(Tiles& tiles, void* to) {
  auto* first = static_cast<std::byte*>(to);
  tiles.template store<0>(first, kSumsStride);
  tiles.template store<1>(first + kLine, kSumsStride);
  if constexpr (kRowTiles == 2) {
    tiles.template store<2>(first + kTileSums * 4, kSumsStride);
    tiles.template store<3>(first + kTileSums * 4 + kLine, kSumsStride);
  }
}

template <int kRowTiles, class Tiles>
SHARDLM_AMX inline void zero_sums(Tiles& tiles) {
  tiles.template zero<0>();
  tiles.template zero<1>();
  if constexpr (kRowTiles == 2) {
    tiles.template zero<2>();
    tiles.template zero<3>();
  }
}

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

/// One or two tiles of rows by 32 columns over one block of inputs.
template <int kRowTiles, class Tiles>
SHARDLM_AMX inline void multiply_block(Tiles& tiles, const std::int8_t* const* x,
                                       std::int64_t x_stride, const std::int8_t* w,
                                       std::int32_t* sums) {
  zero_sums<kRowTiles>(tiles);
  tiles.template load<6>(w, kWeightStride);
  tiles.template load<4>(x[0], x_stride);
  tiles.template dot_int8<0, 4, 6>();
  tiles.template load<7>(w + kLine, kWeightStride);
  tiles.template dot_int8<1, 4, 7>();
  if constexpr (kRowTiles == 2) {
    tiles.template load<5>(x[1], x_stride);
    tiles.template dot_int8<2, 5, 6>();
    tiles.template dot_int8<3, 5, 7>();
  }
  store_sums<kRowTiles>(tiles, sums);
}

/// A slice's weights as signed bytes, and its scales.
struct Int8Slice {
  const std::byte* scales;
  std::int64_t scales_step;
  std::int64_t first, count;  // blocks
  alignas(64) std::int8_t values[kSliceBlocks * kUnpackedBlockBytes];

  Int8Slice(const QuantisedProduct& p, std::int64_t first_block)
      : first(first_block), count(std::min(kSliceBlocks, p.x->blocks() - first_block)) {
    const WeightBlocks stored(p.dtype, p.panel, first, count);
    scales = stored.scales;
    scales_step = stored.scales_step;
    for (std::int64_t b = 0; b < count; ++b) {
      amx_signed_block(p.dtype, stored.values + b * stored.values_step,
                       values + b * kUnpackedBlockBytes);
    }
  }
};

/// totals += one or two tiles of rows, beginning at rows[], by 32 columns from `column` of the
/// panel on, over a slice.
template <int kRowTiles, class Tiles>
SHARDLM_AMX inline void multiply_slice(Tiles& tiles, const QuantisedRows& x,
                                       const std::int64_t* rows, const Int8Slice& slice,
                                       std::int64_t column, Ahead& ahead, float* totals) {
  constexpr std::int64_t kBlocks = AmxBlockSums::kBlocks;
  constexpr std::int64_t kBlockSums = kRowTiles * kTileSums;
  alignas(64) std::int32_t sums[kBlocks * kBlockSums];
  const std::int64_t x_stride = x.blocks() * QuantisedRows::kBlock;
  for (std::int64_t first = 0; first < slice.count; first += kBlocks) {
    const std::int64_t count = std::min(kBlocks, slice.count - first);
    for (std::int64_t b = first; b < first + count; ++b) {
      const std::int64_t input = (slice.first + b) * QuantisedRows::kBlock;
      const std::int8_t* values[] = {x.values(rows[0]) + input,
                                     x.values(rows[kRowTiles - 1]) + input};
      multiply_block<kRowTiles>(tiles, values, x_stride,
                                slice.values + b * kUnpackedBlockBytes + column * 4,
                                sums + (b - first) * kBlockSums);
      ahead.step();
    }
    for (int t = 0; t < kRowTiles; ++t) {
      amx_add_blocks({.sums = sums + t * kTileSums,
                      .sums_step = kBlockSums,
                      .blocks = count,
                      .x_scales = x.scales(rows[t]) + slice.first + first,
                      .x_step = x.blocks(),
                      .w_scales = slice.scales + first * slice.scales_step + column * 2,
                      .w_step = slice.scales_step},
                     totals + t * kTileSums);
    }
  }
}

/// A slice for one or two tiles of rows by 32 columns, from column `c` of the product on. A last
/// tile that is not full begins earlier: its first `skip` rows belong to the one before.
struct Int8Part {
  std::int64_t rows[2];  // where the tiles begin, in the product
  std::int64_t skip[2];
  int tiles;
  std::int64_t c;
};

inline void copy_totals(const QuantisedProduct& p, const Int8Part& part, bool in, bool first_slice,
                        float* totals) {
  for (int t = 0; t < part.tiles; ++t) {
    for (std::int64_t r = in ? 0 : part.skip[t]; r < AmxRows::kRows; ++r) {
      float* out = p.out + (part.rows[t] + r) * p.out_stride + part.c;
      float* total = totals + t * kTileSums + r * kAmxColumns;
      if (in) {
        std::copy_n(first_slice ? p.init + part.c : out, kAmxColumns, total);
      } else {
        std::copy_n(total, kAmxColumns, out);
      }
    }
  }
}

/// See multiply_panel_amx.
template <class Tiles>
SHARDLM_AMX void multiply_int8(const QuantisedProduct& p) {
  constexpr std::int64_t kRows = AmxRows::kRows;
  alignas(64) float totals[2 * kTileSums];
  const std::int64_t blocks = p.x->blocks();
  const std::int64_t row_tiles = (p.rows + kRows - 1) / kRows;
  const std::int64_t steps = (row_tiles + 1) / 2 * (p.columns / kAmxColumns) * blocks;
  const auto tile_bytes = static_cast<std::int64_t>(PanelLayout{.dtype = p.dtype}.tile_bytes());
  Ahead ahead(p.next_panel, blocks * tile_bytes, std::max<std::int64_t>(steps, 1));
  Tiles tiles(kInt8Shapes);
  std::int64_t first = 0;
  do {
    const Int8Slice slice(p, first);
    for (std::int64_t t = 0; t < row_tiles; t += 2) {
      Int8Part part{.rows = {}, .skip = {}, .tiles = t + 1 < row_tiles ? 2 : 1, .c = 0};
      std::int64_t rows[2] = {};
      for (std::int64_t i = 0; i < part.tiles; ++i) {
        part.rows[i] = std::min((t + i) * kRows, p.rows - kRows);
        part.skip[i] = (t + i) * kRows - part.rows[i];
        rows[i] = p.first_row + part.rows[i];
      }
      for (; part.c < p.columns; part.c += kAmxColumns) {
        const std::int64_t column = p.first_column + part.c;
        copy_totals(p, part, true, first == 0, totals);
        part.tiles == 2 ? multiply_slice<2>(tiles, *p.x, rows, slice, column, ahead, totals)
                        : multiply_slice<1>(tiles, *p.x, rows, slice, column, ahead, totals);
        copy_totals(p, part, false, first == 0, totals);
      }
    }
    first += kSliceBlocks;
  } while (first < blocks);
}

}  // namespace shardlm::amx
