// The inner loop of the matmuls with float weights: a tile of the result in registers. Included
// once for every instruction set; see Highway's documentation of foreach_target.h for the unusual
// guard.
#if defined(SHARDLM_BACKEND_CPU_MATMUL_TILE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SHARDLM_BACKEND_CPU_MATMUL_TILE_INL_H_
#undef SHARDLM_BACKEND_CPU_MATMUL_TILE_INL_H_
#else
#define SHARDLM_BACKEND_CPU_MATMUL_TILE_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "backend/cpu/panel_layout.h"
#include "backend/cpu/simd_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace shardlm::HWY_NAMESPACE {

constexpr int kPanelWidth = static_cast<int>(PanelLayout::kOutputs);
constexpr int kMaxRows = 6;
constexpr int kRegisters = HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_NEON ? 32 : 16;

// What a type of weights is in a panel: lines of `kInputs` inputs and 64 outputs. Get<i>() makes
// kLanes outputs of input i of a line, from `column` on, exactly.
struct F32Weights {
  static constexpr int kInputs = 1;
  static constexpr std::int64_t kLineBytes = kPanelWidth * 4;
  template <int i>
  HWY_INLINE static VecF Get(const std::byte* line, int column) {
    return hn::Load(F(), reinterpret_cast<const float*>(line) + column);
  }
};

struct Bf16Weights {  // pairs of inputs, the first in the low half
  static constexpr int kInputs = 2;
  static constexpr std::int64_t kLineBytes = kPanelWidth * 4;
  template <int i>
  HWY_INLINE static VecF Get(const std::byte* line, int column) {
    const hn::RebindToUnsigned<F> bits;
    const auto pairs = hn::Load(bits, reinterpret_cast<const std::uint32_t*>(line) + column);
    if constexpr (i == 0) return hn::BitCast(F(), hn::ShiftLeft<16>(pairs));
    return hn::BitCast(F(), hn::And(pairs, hn::Set(bits, 0xFFFF0000U)));
  }
};

struct F16Weights {
  static constexpr int kInputs = 1;
  static constexpr std::int64_t kLineBytes = kPanelWidth * 2;
  template <int i>
  HWY_INLINE static VecF Get(const std::byte* line, int column) {
    const hn::Rebind<hwy::float16_t, F> half;
    const auto values = hn::Load(half, reinterpret_cast<const hwy::float16_t*>(line) + column);
    const VecF wide = hn::PromoteTo(F(), values);
#if HWY_TARGET == HWY_SSE4 || HWY_TARGET == HWY_EMU128 || HWY_TARGET == HWY_SCALAR
    // Highway's substitute for the instruction makes 65536 and more of infinity and NaN.
    const hn::RebindToUnsigned<F> bits;
    const VecF special =
        hn::BitCast(F(), hn::Or(hn::BitCast(bits, wide), hn::Set(bits, 0x7F800000U)));
    return hn::IfThenElse(hn::Ge(hn::Abs(wide), hn::Set(F(), 65536.0F)), special, wide);
#else
    return wide;
#endif
  }
};

struct Tile {
  const float* x;
  std::int64_t x_stride;
  const std::byte* w;   // the first line, at the first column
  std::int64_t inputs;  // whole lines, but for the last ones of a panel
  const float* init;
  std::int64_t init_stride;
  float* out;
  std::int64_t out_stride;
  const std::byte* ahead;   // what will be read after this tile: `ahead_step` bytes of it are asked
  std::int64_t ahead_step;  // for with every line
};

/// Vectors of outputs for `rows` rows of a tile of `columns`: all accumulators, two vectors of
/// weights and an input fit the registers.
constexpr int vectors_for(int rows, int columns) {
  int vectors = columns / static_cast<int>(kLanes);
  while (rows * vectors + std::min(vectors, 2) + 1 > kRegisters) vectors /= 2;
  return vectors;
}

template <class Weights, int i, int kRows, int kVectors>
HWY_INLINE void AddInput(const std::byte* line, const float* x, std::int64_t x_stride,
                         VecF (&sum)[kRows][kVectors]) {
  VecF weights[kVectors];
  for (int v = 0; v < kVectors; ++v) {
    weights[v] = Weights::template Get<i>(line, v * static_cast<int>(kLanes));
  }
  for (int r = 0; r < kRows; ++r) {
    const VecF input = hn::Set(F(), x[r * x_stride + i]);
    for (int v = 0; v < kVectors; ++v) sum[r][v] = hn::MulAdd(input, weights[v], sum[r][v]);
  }
}

/// kRows rows by kVectors vectors of outputs. Every line asks for kAhead cache lines of memory: a
/// core alone keeps too few reads under way.
template <class Weights, int kAhead, int kRows, int kVectors>
HWY_INLINE void MultiplyTile(const Tile& tile) {
  const F d;
  VecF sum[kRows][kVectors];
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < kVectors; ++v) {
      sum[r][v] = hn::LoadU(d, tile.init + r * tile.init_stride + v * static_cast<int>(kLanes));
    }
  }
  const std::byte* HWY_RESTRICT line = tile.w;
  const float* HWY_RESTRICT x = tile.x;
  const std::byte* ahead = tile.ahead;
  std::int64_t k = 0;
  for (; k + Weights::kInputs <= tile.inputs; k += Weights::kInputs) {
    AddInput<Weights, 0>(line, x, tile.x_stride, sum);
    if constexpr (Weights::kInputs == 2) AddInput<Weights, 1>(line, x, tile.x_stride, sum);
    for (int i = 0; i < kAhead; ++i) __builtin_prefetch(ahead + i * 64, 0, 2);
    ahead += tile.ahead_step;
    line += Weights::kLineBytes;
    x += Weights::kInputs;
  }
  if (k < tile.inputs) AddInput<Weights, 0>(line, x, tile.x_stride, sum);
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < kVectors; ++v) {
      hn::StoreU(sum[r][v], d, tile.out + r * tile.out_stride + v * static_cast<int>(kLanes));
    }
  }
}

/// kRows rows by kColumns outputs: the panel or half of it.
template <class Weights, int kAhead, int kRows, int kColumns>
HWY_NOINLINE void MultiplyRows(Tile tile) {
  constexpr int kVectors = vectors_for(kRows, kColumns);
  constexpr int kStep = kVectors * static_cast<int>(kLanes);
  for (int column = 0; column < kColumns; column += kStep) {
    MultiplyTile<Weights, kAhead, kRows, kVectors>(tile);
    tile.w += kStep * Weights::kLineBytes / kPanelWidth;
    tile.init += kStep;
    tile.out += kStep;
  }
}

template <class Weights, int kAhead, int kColumns>
void MultiplyAnyRows(const Tile& tile, std::int64_t rows) {
  switch (rows) {
    case 1:
      return MultiplyRows<Weights, kAhead, 1, kColumns>(tile);
    case 2:
      return MultiplyRows<Weights, kAhead, 2, kColumns>(tile);
    case 3:
      return MultiplyRows<Weights, kAhead, 3, kColumns>(tile);
    case 4:
      return MultiplyRows<Weights, kAhead, 4, kColumns>(tile);
    case 5:
      return MultiplyRows<Weights, kAhead, 5, kColumns>(tile);
    default:
      return MultiplyRows<Weights, kAhead, kMaxRows, kColumns>(tile);
  }
}

}  // namespace shardlm::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
