#include "backend/cpu/matmul.h"
#include "backend/cpu/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/matmul_kernel.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h, which includes this file again:
#include <hwy/highway.h>

#include <algorithm>
#include <type_traits>

#include "backend/cpu/matmul_tile-inl.h"
#include "base/error.h"

HWY_BEFORE_NAMESPACE();
namespace shardlm::HWY_NAMESPACE {

// With more rows than a tile has, a panel is worked off in slices of inputs, over which all rows
// pass while they stay in the level-1 (few rows) or level-2 cache. The accumulators are stored and
// loaded between slices, which is exact: the chain of additions stays one chain.
constexpr std::int64_t kSliceOfFewRows = 128, kSlice = 256;
constexpr std::int64_t kFewRows = 18;
// How far in front of a single tile the memory is asked for.
constexpr std::int64_t kDistance = 4096;

/// Lines of a slice as float32: whole lines of 64, of which `columns` are written.
template <class Weights>
void Convert(const std::byte* line, std::int64_t inputs, int columns, float* to) {
  for (std::int64_t k = 0; k < inputs; k += Weights::kInputs) {
    for (int c = 0; c < columns; c += static_cast<int>(kLanes)) {
      hn::Store(Weights::template Get<0>(line, c), F(), to + c);
      if constexpr (Weights::kInputs == 2) {
        hn::Store(Weights::template Get<1>(line, c), F(), to + kPanelWidth + c);
      }
    }
    line += Weights::kLineBytes;
    to += Weights::kInputs * kPanelWidth;
  }
}

float* AlignedScratch(std::vector<float>& scratch, std::int64_t floats) {
  scratch.resize(static_cast<std::size_t>(floats) + 16);
  return reinterpret_cast<float*>((reinterpret_cast<std::uintptr_t>(scratch.data()) + 63) / 64 *
                                  64);
}

/// All rows over one slice of a panel, in equal tiles. In fixed point a slice is a block: a tile's
/// sums are added while they are in the level-1 cache.
template <class Weights, int kAhead, int kColumns>
void MultiplySlice(const PanelProduct& p, std::int64_t k, std::int64_t inputs,
                   const std::byte* weights, const std::byte* ahead, std::int64_t ahead_bytes) {
  const std::int64_t blocks = (p.rows + kMaxRows - 1) / kMaxRows;
  const std::int64_t lines = std::max<std::int64_t>(1, inputs / Weights::kInputs);
  const std::int64_t share = ahead_bytes / blocks;
  alignas(64) float sums[kMaxRows * kPanelWidth];  // in fixed point
  const bool alone = k == 0 || p.fixed != nullptr;
  for (std::int64_t b = 0; b < blocks; ++b) {
    const std::int64_t r = p.rows * b / blocks;
    const std::int64_t rows = p.rows * (b + 1) / blocks - r;
    float* out = p.fixed != nullptr ? sums : p.out + r * p.out_stride;
    const Tile tile{.x = p.x + r * p.x_stride + k,
                    .x_stride = p.x_stride,
                    .w = weights,
                    .inputs = inputs,
                    .init = alone ? p.init : out,
                    .init_stride = alone ? 0 : p.out_stride,
                    .out = out,
                    .out_stride = p.out_stride,
                    .ahead = ahead + b * share,
                    .ahead_step = (share + lines - 1) / lines};
    MultiplyAnyRows<Weights, kAhead, kColumns>(tile, rows);
    if (p.fixed != nullptr) add_fixed_rows(sums, p.out_stride, r, rows, k == 0, *p.fixed);
  }
}

template <class Weights, int kColumns>
void MultiplyColumns(const PanelProduct& p) {
  const std::byte* panel = p.panel + p.first_column * Weights::kLineBytes / kPanelWidth;
  if (p.rows <= kMaxRows) {
    constexpr int kAhead = static_cast<int>(Weights::kLineBytes / 64);
    const std::int64_t slice = p.fixed != nullptr ? p.fixed->block : p.in;
    std::int64_t k = 0;
    do {
      const std::int64_t inputs = std::min(slice, p.in - k);
      const std::byte* weights = panel + k / Weights::kInputs * Weights::kLineBytes;
      MultiplySlice<Weights, kAhead, kColumns>(p, k, inputs, weights, weights + kDistance,
                                               inputs / Weights::kInputs * Weights::kLineBytes);
      k += inputs;
    } while (k < p.in);
    return;
  }
  constexpr bool kConvert = !std::is_same_v<Weights, F32Weights>;
  const std::int64_t slice = p.fixed != nullptr   ? p.fixed->block
                             : p.rows <= kFewRows ? kSliceOfFewRows
                                                  : kSlice;
  const std::int64_t slice_bytes = slice / Weights::kInputs * Weights::kLineBytes;
  float* converted = kConvert ? AlignedScratch(*p.scratch, slice * kPanelWidth) : nullptr;
  std::int64_t k = 0;
  do {
    const std::int64_t inputs = std::min(slice, p.in - k);
    const std::byte* weights = panel + k / Weights::kInputs * Weights::kLineBytes;
    if constexpr (kConvert) {
      Convert<Weights>(weights, inputs, kColumns, converted);
      MultiplySlice<F32Weights, 2, kColumns>(p, k, inputs, reinterpret_cast<std::byte*>(converted),
                                             weights + slice_bytes, slice_bytes);
    } else {
      MultiplySlice<Weights, 2, kColumns>(p, k, inputs, weights, weights + slice_bytes,
                                          slice_bytes);
    }
    k += inputs;
  } while (k < p.in);
}

template <class Weights>
HWY_INLINE void MultiplyPanel(const PanelProduct& p) {
  if (p.columns == kPanelWidth) return MultiplyColumns<Weights, kPanelWidth>(p);
  check(p.columns == kPanelWidth / 2, "matmul: a panel or half of one");
  MultiplyColumns<Weights, kPanelWidth / 2>(p);
}

void MultiplyPanelF32(const PanelProduct& p) { MultiplyPanel<F32Weights>(p); }
void MultiplyPanelBf16(const PanelProduct& p) { MultiplyPanel<Bf16Weights>(p); }
void MultiplyPanelF16(const PanelProduct& p) { MultiplyPanel<F16Weights>(p); }

}  // namespace shardlm::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace shardlm {

HWY_EXPORT(MultiplyPanelF32);
HWY_EXPORT(MultiplyPanelBf16);
HWY_EXPORT(MultiplyPanelF16);

void multiply_panel_f32(const PanelProduct& product) {
  HWY_DYNAMIC_DISPATCH(MultiplyPanelF32)(product);
}

void multiply_panel_bf16(const PanelProduct& product) {
  HWY_DYNAMIC_DISPATCH(MultiplyPanelBf16)(product);
}

void multiply_panel_f16(const PanelProduct& product) {
  HWY_DYNAMIC_DISPATCH(MultiplyPanelF16)(product);
}

}  // namespace shardlm
#endif
