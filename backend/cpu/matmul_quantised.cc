#include "backend/cpu/matmul_quantised.h"
#include "backend/cpu/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/matmul_quantised.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h, which includes this file again:
#include <hwy/highway.h>

#include <algorithm>
#include <cstring>

#include "backend/cpu/amx_matmul.h"
#include "backend/cpu/cpu_features.h"
#include "backend/cpu/half-inl.h"

HWY_BEFORE_NAMESPACE();
namespace shardlm::HWY_NAMESPACE {

using I = hn::RebindToSigned<F>;
using VecI = hn::Vec<I>;
constexpr std::int64_t kStep = static_cast<std::int64_t>(kLanes);
constexpr int kMaxRows = 4;
// Vectors of outputs at once: the sums of 4 rows and two vectors a weight fit the registers.
constexpr int kPanelVectors = HWY_TARGET == HWY_AVX3 ? 4 : 2;  // of a whole panel
constexpr int kPartVectors = kStep == 16 ? 1 : 2;              // of 16 columns

/// sum + the products of the two pairs of 16-bit numbers in each lane of 32; exact.
HWY_INLINE VecI AddPairs(VecI sum, VecI a, VecI b) {
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_SSE4
  // On x86 this is pmaddwd and leaves each product in its lane (not so elsewhere).
  const hn::Repartition<std::int16_t, I> half;
  VecI rest = hn::Zero(I());
  return hn::ReorderWidenMulAccumulate(I(), hn::BitCast(half, a), hn::BitCast(half, b), sum, rest);
#else
  const auto low = [](VecI v) { return hn::ShiftRight<16>(hn::ShiftLeft<16>(v)); };
  sum = hn::Add(sum, hn::Mul(low(a), low(b)));
  return hn::Add(sum, hn::Mul(hn::ShiftRight<16>(a), hn::ShiftRight<16>(b)));
#endif
}

/// Four neighbouring activations as pairs for AddPairs: bytes 0 and 2, 1 and 3, in every lane.
struct FourInputs {
  VecI even, odd;

  explicit HWY_INLINE FourInputs(const std::int8_t* x) {
    std::int32_t four;
    std::memcpy(&four, x, sizeof four);
    const I di;
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_SSE4
    const hn::Repartition<std::int16_t, I> half;
    const auto bytes = hn::BitCast(half, hn::Set(di, four));
    even = hn::BitCast(di, hn::ShiftRight<8>(hn::ShiftLeft<8>(bytes)));
    odd = hn::BitCast(di, hn::ShiftRight<8>(bytes));
#else
    const auto pair = [](int first, int second) {
      return static_cast<std::int32_t>((static_cast<unsigned>(first) & 0xFFFFU) |
                                       static_cast<unsigned>(second) << 16);
    };
    even = hn::Set(di, pair(x[0], x[2]));
    odd = hn::Set(di, pair(x[1], x[3]));
#endif
  }
};

/// kRows rows from `row` on by kVectors vectors of outputs from `column` on, over one block.
/// `totals`: [kRows][64].
template <int kRows, int kVectors>
HWY_INLINE void MultiplyBlock(const QuantisedRows& x, std::int64_t row, const WeightBlocks& blocks,
                              std::int64_t b, std::int64_t column, float* HWY_RESTRICT totals) {
  const F d;
  const I di;
  const VecI low_bytes = hn::Set(di, 0x00FF00FF);
  const std::int8_t* values = x.values(row) + (blocks.first + b) * QuantisedRows::kBlock;
  VecI sum[kRows][kVectors];
  for (int r = 0; r < kRows; ++r) {
    const VecI start = hn::Set(di, -blocks.zero * x.sums(row + r)[blocks.first + b]);
    for (int v = 0; v < kVectors; ++v) sum[r][v] = start;
  }
  const auto* w =
      reinterpret_cast<const std::int32_t*>(blocks.values + b * blocks.values_step) + column;
  for (int group = 0; group < 8; ++group, w += PanelLayout::kOutputs, values += 4) {
    VecI even[kVectors], odd[kVectors];  // bytes 0 and 2 of each lane, 1 and 3
    for (int v = 0; v < kVectors; ++v) {
      const VecI weights = hn::LoadU(di, w + v * kStep);
      even[v] = hn::And(weights, low_bytes);
      odd[v] = hn::And(hn::ShiftRight<8>(weights), low_bytes);
    }
    for (int r = 0; r < kRows; ++r) {
      const FourInputs inputs(values + r * x.blocks() * QuantisedRows::kBlock);
      for (int v = 0; v < kVectors; ++v) {
        sum[r][v] = AddPairs(AddPairs(sum[r][v], even[v], inputs.even), odd[v], inputs.odd);
      }
    }
  }
  const auto* scales =
      reinterpret_cast<const std::uint16_t*>(blocks.scales + b * blocks.scales_step) + column;
  for (int v = 0; v < kVectors; ++v) {
    const VecF w_scale = LoadHalves(scales + v * kStep);
    for (int r = 0; r < kRows; ++r) {
      const VecF scale = hn::Mul(w_scale, hn::Set(d, x.scales(row + r)[blocks.first + b]));
      float* total = totals + r * PanelLayout::kOutputs + column + v * kStep;
      hn::StoreU(hn::MulAdd(hn::ConvertTo(d, sum[r][v]), scale, hn::LoadU(d, total)), d, total);
    }
  }
}

template <int kRows, int kVectors>
HWY_NOINLINE void MultiplyColumns(const QuantisedProduct& p, std::int64_t row,
                                  const WeightBlocks& blocks) {
  // Not in place: rows of `out` often lie a multiple of 4 KiB apart, where processors take loads
  // and stores of different rows for ones of the same address.
  alignas(64) float totals[kRows * PanelLayout::kOutputs];
  float* out = p.fixed != nullptr ? nullptr : p.out + (row - p.first_row) * p.out_stride;
  const bool alone = blocks.first == 0 || p.fixed != nullptr;
  for (int r = 0; r < kRows; ++r) {
    std::copy_n(alone ? p.init : out + r * p.out_stride, p.columns,
                totals + r * PanelLayout::kOutputs + p.first_column);
  }
  for (std::int64_t b = 0; b < blocks.count; ++b) {
    for (std::int64_t column = p.first_column; column < p.first_column + p.columns;
         column += kVectors * kStep) {
      MultiplyBlock<kRows, kVectors>(*p.x, row, blocks, b, column, totals);
    }
  }
  if (p.fixed != nullptr) {
    return add_fixed_rows(totals + p.first_column, PanelLayout::kOutputs, row - p.first_row, kRows,
                          blocks.first == 0, *p.fixed);
  }
  for (int r = 0; r < kRows; ++r) {
    std::copy_n(totals + r * PanelLayout::kOutputs + p.first_column, p.columns,
                out + r * p.out_stride);
  }
}

template <int kRows>
void MultiplyRows(const QuantisedProduct& p, std::int64_t row, const WeightBlocks& blocks) {
  p.columns == PanelLayout::kOutputs ? MultiplyColumns<kRows, kPanelVectors>(p, row, blocks)
                                     : MultiplyColumns<kRows, kPartVectors>(p, row, blocks);
}

/// Four-bit weights to bytes: [4][64][4] to [8][64][4].
void UnpackBlock(const std::byte* from, std::byte* to) {
  const I di;
  const VecI low_four = hn::Set(di, 0x0F0F0F0F);
  const auto* codes = reinterpret_cast<const std::int32_t*>(from);
  auto* bytes = reinterpret_cast<std::int32_t*>(to);
  for (std::int64_t pair = 0; pair < PanelLayout::kInputs / 8; ++pair) {
    for (std::int64_t j = 0; j < PanelLayout::kOutputs; j += kStep) {
      const VecI both = hn::LoadU(di, codes + pair * PanelLayout::kOutputs + j);
      std::int32_t* out = bytes + 2 * pair * PanelLayout::kOutputs + j;
      hn::StoreU(hn::And(both, low_four), di, out);
      hn::StoreU(hn::And(hn::ShiftRight<4>(both), low_four), di, out + PanelLayout::kOutputs);
    }
  }
}

void MultiplyPortable(const QuantisedProduct& p) {
  alignas(64) std::byte unpacked[kSliceBlocks * kUnpackedBlockBytes];
  const std::int64_t slice = p.slice_blocks();
  std::int64_t first = 0;
  do {
    WeightBlocks blocks(p.dtype, p.panel, first, std::min(slice, p.x->blocks() - first));
    if (p.dtype == DType::q4) {
      for (std::int64_t b = 0; b < blocks.count; ++b) {
        UnpackBlock(blocks.values + b * blocks.values_step, unpacked + b * kUnpackedBlockBytes);
      }
      blocks.values = unpacked;
      blocks.values_step = kUnpackedBlockBytes;
    }
    std::int64_t row = p.first_row;
    const std::int64_t end = p.first_row + p.rows;
    for (; row + kMaxRows <= end; row += kMaxRows) MultiplyRows<kMaxRows>(p, row, blocks);
    for (; row < end; ++row) MultiplyRows<1>(p, row, blocks);
    first += slice;
  } while (first < p.x->blocks());
}

void MultiplyQuantised(const QuantisedProduct& p) {
#if HWY_TARGET == HWY_AVX3
  if (p.fixed == nullptr && fits_amx(p) && cpu_features().amx_int8) return multiply_panel_amx(p);
  if (cpu_features().avx512_vnni) return multiply_panel_vnni(p);
#endif
  MultiplyPortable(p);
}

}  // namespace shardlm::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace shardlm {

HWY_EXPORT(MultiplyQuantised);

void multiply_panel_quantised(const QuantisedProduct& product) {
  HWY_DYNAMIC_DISPATCH(MultiplyQuantised)(product);
}

}  // namespace shardlm
#endif
