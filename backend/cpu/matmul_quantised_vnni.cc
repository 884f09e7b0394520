// See matmul_quantised.h. Apart from the other instruction sets because Highway's name for these
// instructions stands for several more, which not every processor with them has.
#include "backend/cpu/matmul_quantised.h"
#include "base/error.h"

#include <algorithm>

#if defined(__x86_64__)
#if defined(__GNUC__) && !defined(__clang__)
// GCC 12 warns about its own header's undefined vectors (GCC bug 105593).
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif
#include <immintrin.h>

// Nothing but functions of this file may be compiled with it: a shared one could be kept by the
// linker for processors without these instructions.
#define SHARDLM_VNNI \
  __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,f16c,fma")))
#define SHARDLM_VNNI_INLINE SHARDLM_VNNI __attribute__((always_inline)) inline

namespace shardlm {
namespace {

constexpr int kLanes = 16;
constexpr int kMaxRows = 6;
constexpr int kGroups = 8;  // of 4 inputs in a block
constexpr std::int64_t kGroupBytes = PanelLayout::kOutputs * 4;
constexpr std::int64_t kLine = 64;
// How far before their use weights are asked for where all rows fit one tile: further than the
// processor looks ahead by itself, which stops at the ends of pages.
constexpr std::int64_t kAhead = 104 * kLine;

/// Rows and columns of one call, all pointers at the first.
struct Tile {
  const std::int8_t* x;
  const float* x_scales;
  const std::int32_t* x_sums;
  std::int64_t x_blocks;  // of a row: where the next row begins
  const std::byte* w_scales;
  std::int64_t w_scales_step;
  const std::byte* w;
  std::int64_t w_step;
  std::int64_t blocks;
  std::int32_t zero;
  const std::byte* ahead;   // memory to be brought near meanwhile
  std::int64_t ahead_step;  // bytes of it a block, whole lines
  const float* init;
  std::int64_t init_stride;
  float* out;
  std::int64_t out_stride;
};

/// The activations' next four bytes in each lane.
SHARDLM_VNNI_INLINE __m512i four_inputs(const std::int8_t* x) {
  std::int32_t four;
  __builtin_memcpy(&four, x, sizeof four);
  return _mm512_set1_epi32(four);
}

/// 64 weights, vector v of group g of a block; int4 ones unpacked.
template <bool kFourBits>
SHARDLM_VNNI_INLINE __m512i weights(const std::byte* block, int g, int v) {
  if (!kFourBits) return _mm512_load_si512(block + g * kGroupBytes + v * kLine);
  const __m512i both = _mm512_load_si512(block + g / 2 * kGroupBytes + v * kLine);
  const __m512i low_four = _mm512_set1_epi8(15);
  return _mm512_and_si512(g % 2 == 0 ? both : _mm512_srli_epi16(both, 4), low_four);
}

template <bool kFourBits, int kRows, int kVectors>
SHARDLM_VNNI void multiply_tile(const Tile& t) {
  // Not in place: rows of `out` often lie a multiple of 4 KiB apart, where the processor takes
  // loads and stores of different rows for ones of the same address.
  __m512 total[kRows][kVectors];
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < kVectors; ++v) {
      total[r][v] = _mm512_loadu_ps(t.init + r * t.init_stride + v * kLanes);
    }
  }
  for (std::int64_t b = 0; b < t.blocks; ++b) {
    for (std::int64_t i = 0; i < t.ahead_step; i += kLine) {
      _mm_prefetch(reinterpret_cast<const char*>(t.ahead + b * t.ahead_step + i), _MM_HINT_T1);
    }
    __m512i sum[kRows][kVectors];
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) {
        sum[r][v] = _mm512_set1_epi32(-t.zero * t.x_sums[r * t.x_blocks + b]);
      }
    }
    const std::byte* block = t.w + b * t.w_step;
#pragma GCC unroll 8
    for (int g = 0; g < kGroups; ++g) {
      __m512i w[kVectors];
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) w[v] = weights<kFourBits>(block, g, v);
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        const __m512i x = four_inputs(t.x + (r * t.x_blocks + b) * QuantisedRows::kBlock + 4 * g);
#pragma GCC unroll 4
        for (int v = 0; v < kVectors; ++v) sum[r][v] = _mm512_dpbusd_epi32(sum[r][v], w[v], x);
      }
    }
    const auto* scales = reinterpret_cast<const __m256i*>(t.w_scales + b * t.w_scales_step);
    __m512 w_scale[kVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) w_scale[v] = _mm512_cvtph_ps(_mm256_load_si256(scales + v));
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const __m512 x_scale = _mm512_set1_ps(t.x_scales[r * t.x_blocks + b]);
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) {
        total[r][v] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sum[r][v]),
                                      _mm512_mul_ps(w_scale[v], x_scale), total[r][v]);
      }
    }
  }
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < kVectors; ++v) {
      _mm512_storeu_ps(t.out + r * t.out_stride + v * kLanes, total[r][v]);
    }
  }
}

template <bool kFourBits, int kVectors>
void multiply_rows(const Tile& t, std::int64_t rows) {
  switch (rows) {
    case 1:
      return multiply_tile<kFourBits, 1, kVectors>(t);
    case 2:
      return multiply_tile<kFourBits, 2, kVectors>(t);
    case 3:
      return multiply_tile<kFourBits, 3, kVectors>(t);
    case 4:
      return multiply_tile<kFourBits, 4, kVectors>(t);
    case 5:
      return multiply_tile<kFourBits, 5, kVectors>(t);
    default:
      return multiply_tile<kFourBits, kMaxRows, kVectors>(t);
  }
}

/// The whole panel at once, or 16 columns at a time.
template <bool kFourBits>
void multiply_columns(Tile t, std::int64_t rows, std::int64_t columns) {
  if (columns == PanelLayout::kOutputs) return multiply_rows<kFourBits, 4>(t, rows);
  for (std::int64_t c = 0; c < columns; c += kLanes) {
    multiply_rows<kFourBits, 1>(t, rows);
    t.w_scales += kLanes * 2;
    t.w += kLine;
    t.init += kLanes;
    t.out += kLanes;
    t.ahead_step = 0;
  }
}

/// Four-bit weights to bytes: [4][64][4] to [8][64][4].
SHARDLM_VNNI void unpack(const std::byte* from, std::byte* to) {
#pragma GCC unroll 8
  for (int g = 0; g < kGroups; ++g) {
#pragma GCC unroll 4
    for (int v = 0; v < 4; ++v) {
      _mm512_store_si512(to + g * kGroupBytes + v * kLine, weights<true>(from, g, v));
    }
  }
}

/// All rows over some blocks. What the first rows bring into the cache serves the others; with
/// several tiles of rows, where arithmetic takes as long as memory, all of them fetch the next
/// slice meanwhile.
void multiply_slice(const QuantisedProduct& p, const WeightBlocks& w, bool four_bits) {
  const std::int64_t tiles = (p.rows + kMaxRows - 1) / kMaxRows;
  const std::int64_t after = w.first + w.count;  // blocks
  const bool last = after == p.x->blocks();
  const std::byte* next = last ? p.next_panel : p.panel + after * w.scales_step;
  const std::int64_t next_blocks = std::min(p.slice_blocks(), p.x->blocks() - (last ? 0 : after));
  const std::int64_t next_lines = next_blocks * w.scales_step / kLine;
  const std::int64_t passes = tiles * w.count;
  const bool alone = tiles == 1;
  const bool fetch = next != nullptr && !alone && w.count > 0;
  const std::int64_t lines = fetch ? (next_lines + passes - 1) / passes : 0;  // a block and tile
  alignas(64) float sums[kMaxRows * PanelLayout::kOutputs];                   // in fixed point
  const bool from_init = w.first == 0 || p.fixed != nullptr;
  for (std::int64_t i = 0; i < tiles; ++i) {
    const std::int64_t begin = p.rows * i / tiles, row = p.first_row + begin;
    float* const out = p.fixed != nullptr ? sums : p.out + begin * p.out_stride;
    const Tile tile{.x = p.x->values(row) + w.first * QuantisedRows::kBlock,
                    .x_scales = p.x->scales(row) + w.first,
                    .x_sums = p.x->sums(row) + w.first,
                    .x_blocks = p.x->blocks(),
                    .w_scales = w.scales + p.first_column * 2,
                    .w_scales_step = w.scales_step,
                    .w = w.values + p.first_column * 4,
                    .w_step = w.values_step,
                    .blocks = w.count,
                    .zero = w.zero,
                    .ahead = alone   ? w.scales + kAhead
                             : fetch ? next + i * w.count * lines * kLine
                                     : nullptr,
                    .ahead_step = alone ? w.scales_step : lines * kLine,
                    .init = from_init ? p.init : out,
                    .init_stride = from_init ? 0 : p.out_stride,
                    .out = out,
                    .out_stride = p.out_stride};
    const std::int64_t rows = p.rows * (i + 1) / tiles - begin;
    four_bits ? multiply_columns<true>(tile, rows, p.columns)
              : multiply_columns<false>(tile, rows, p.columns);
    if (p.fixed != nullptr) {
      add_fixed_rows(sums, p.out_stride, begin, rows, w.first == 0, *p.fixed);
    }
  }
}

}  // namespace

void multiply_panel_vnni(const QuantisedProduct& p) {
  const std::int64_t blocks = p.x->blocks(), step = p.slice_blocks();
  if (p.rows <= kMaxRows) {
    const std::int64_t at_once = p.fixed != nullptr ? step : std::max<std::int64_t>(blocks, 1);
    for (std::int64_t first = 0; first == 0 || first < blocks; first += at_once) {
      const WeightBlocks some(p.dtype, p.panel, first, std::min(at_once, blocks - first));
      multiply_slice(p, some, p.dtype == DType::q4);
    }
    return;
  }
  alignas(64) std::byte unpacked[kSliceBlocks * kUnpackedBlockBytes];
  std::int64_t first = 0;
  do {
    WeightBlocks slice(p.dtype, p.panel, first, std::min(step, blocks - first));
    if (p.dtype == DType::q4) {
      for (std::int64_t b = 0; b < slice.count; ++b) {
        unpack(slice.values + b * slice.values_step, unpacked + b * kUnpackedBlockBytes);
      }
      slice.values = unpacked;
      slice.values_step = kUnpackedBlockBytes;
    }
    multiply_slice(p, slice, false);
    first += step;
  } while (first < blocks);
}

}  // namespace shardlm

#else

namespace shardlm {

void multiply_panel_vnni(const QuantisedProduct&) {
  check(false, "AVX-512 VNNI on a machine that has it");
}

}  // namespace shardlm
#endif
