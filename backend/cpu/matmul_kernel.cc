#include "backend/cpu/matmul.h"
#include "backend/cpu/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/matmul_kernel.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h, which includes this file again:
#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <algorithm>

#include "backend/cpu/simd_math-inl.h"
#include "base/error.h"

HWY_BEFORE_NAMESPACE();
namespace shardlm::HWY_NAMESPACE {

constexpr int kPanelWidth = static_cast<int>(PackedMatrix::kPanel);
constexpr int kMaxRows = 6;
// With more rows than the kernel takes at once, a panel is worked off in slices of this many
// inputs (32 KiB), which stay in the level-1 cache while all rows pass. The accumulators are
// stored and loaded between slices, which is exact: the chain of additions stays one chain.
constexpr std::int64_t kSlice = 128;
constexpr int kRegisters = HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_NEON ? 32 : 16;

/// Vectors of outputs for `rows` rows: all accumulators, two vectors of weights and an input fit
/// the registers.
constexpr int vectors_for(int rows) {
  int vectors = kPanelWidth / static_cast<int>(kLanes);
  while (rows * vectors + std::min(vectors, 2) + 1 > kRegisters) vectors /= 2;
  return vectors;
}

struct Tile {
  const float* x;
  std::int64_t x_stride;
  const float* w;  // [inputs][64]
  std::int64_t inputs;
  const float* init;
  std::int64_t init_stride;
  float* out;
  std::int64_t out_stride;
};

/// kRows rows by kVectors vectors of outputs.
template <int kRows, int kVectors>
HWY_INLINE void MultiplyTile(const Tile& tile) {
  const F d;
  VecF sum[kRows][kVectors];
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < kVectors; ++v) {
      sum[r][v] = hn::LoadU(d, tile.init + r * tile.init_stride + v * static_cast<int>(kLanes));
    }
  }
  const float* HWY_RESTRICT w = tile.w;
  const float* HWY_RESTRICT x = tile.x;
  for (std::int64_t k = 0; k < tile.inputs; ++k, w += kPanelWidth) {
    VecF weights[kVectors];
    for (int v = 0; v < kVectors; ++v) weights[v] = hn::Load(d, w + v * static_cast<int>(kLanes));
    for (int r = 0; r < kRows; ++r) {
      const VecF input = hn::Set(d, x[r * tile.x_stride + k]);
      for (int v = 0; v < kVectors; ++v) sum[r][v] = hn::MulAdd(input, weights[v], sum[r][v]);
    }
  }
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < kVectors; ++v) {
      hn::StoreU(sum[r][v], d, tile.out + r * tile.out_stride + v * static_cast<int>(kLanes));
    }
  }
}

/// kRows rows by the whole panel.
template <int kRows>
HWY_NOINLINE void MultiplyRows(Tile tile) {
  constexpr int kVectors = vectors_for(kRows);
  constexpr int kStep = kVectors * static_cast<int>(kLanes);
  for (int column = 0; column < kPanelWidth; column += kStep) {
    MultiplyTile<kRows, kVectors>(tile);
    tile.w += kStep;
    tile.init += kStep;
    tile.out += kStep;
  }
}

void MultiplyAnyRows(const Tile& tile, std::int64_t rows) {
  switch (rows) {
    case 1:
      return MultiplyRows<1>(tile);
    case 2:
      return MultiplyRows<2>(tile);
    case 3:
      return MultiplyRows<3>(tile);
    case 4:
      return MultiplyRows<4>(tile);
    case 5:
      return MultiplyRows<5>(tile);
    default:
      return MultiplyRows<kMaxRows>(tile);
  }
}

void MultiplyPanel(const PanelProduct& p) {
  const std::int64_t blocks = (p.rows + kMaxRows - 1) / kMaxRows;
  check(p.columns == kPanelWidth, "matmul: a whole panel");
  const auto* panel = reinterpret_cast<const float*>(p.panel) + p.first_column;
  const std::int64_t slice = blocks == 1 ? p.in : kSlice;
  std::int64_t k = 0;
  do {
    const std::int64_t inputs = std::min(slice, p.in - k);
    for (std::int64_t b = 0; b < blocks; ++b) {
      const std::int64_t r = p.rows * b / blocks;
      float* out = p.out + r * p.out_stride;
      const Tile tile{p.x + r * p.x_stride + k,
                      p.x_stride,
                      panel + k * kPanelWidth,
                      inputs,
                      k == 0 ? p.init : out,
                      k == 0 ? 0 : p.out_stride,
                      out,
                      p.out_stride};
      MultiplyAnyRows(tile, p.rows * (b + 1) / blocks - r);
    }
    k += inputs;
  } while (k < p.in);
}

}  // namespace shardlm::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace shardlm {

HWY_EXPORT(MultiplyPanel);

void multiply_panel_f32(const PanelProduct& product) {
  HWY_DYNAMIC_DISPATCH(MultiplyPanel)(product);
}

}  // namespace shardlm
#endif
