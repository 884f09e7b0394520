// Products with int8 and int4 weights by tiles; see amx_sums-inl.h.
#pragma once

#include <algorithm>

#include "backend/cpu/amx_sums-inl.h"

namespace shardlm::amx {

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
