#include "backend/cpu/amx_vectors.h"
#include "backend/cpu/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/amx_vectors.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h, which includes this file again:
#include <hwy/highway.h>

#include <algorithm>

#include "backend/cpu/amx_matmul.h"
#include "backend/cpu/half-inl.h"

HWY_BEFORE_NAMESPACE();
namespace shardlm::HWY_NAMESPACE {

using I = hn::RebindToSigned<F>;
constexpr std::int64_t kStep = static_cast<std::int64_t>(kLanes);
constexpr std::int64_t kLine = AmxRows::kInputs;  // values
constexpr std::int64_t kColumns = AmxBlockSums::kColumns;

void RoundRow(const float* x, std::int64_t length, std::uint16_t* to) {
  const auto round = [](const float* from, std::uint16_t* line) {
    for (std::int64_t k = 0; k < kLine; k += kStep) {
      StoreNarrow(hn::ShiftRight<16>(UpperBfloatBits(hn::LoadU(F(), from + k))), line + k);
    }
  };
  for (; length >= kLine; length -= kLine, x += kLine, to += AmxRows::kRows * kLine) round(x, to);
  if (length == 0) return;
  alignas(64) float last[kLine] = {};
  std::copy_n(x, length, last);
  round(last, to);
}

void SignedBlock(DType dtype, const std::byte* from, std::int8_t* to) {
  const I di;
  const auto* words = reinterpret_cast<const std::int32_t*>(from);
  auto* out = reinterpret_cast<std::int32_t*>(to);
  constexpr std::int64_t kGroup = PanelLayout::kOutputs;  // words
  const auto sign = hn::Set(di, static_cast<std::int32_t>(0x80808080U));
  if (dtype == DType::q8) {
    for (std::int64_t i = 0; i < 8 * kGroup; i += kStep) {
      hn::StoreU(hn::Xor(hn::LoadU(di, words + i), sign), di, out + i);
    }
    return;
  }
  const auto low_four = hn::Set(di, 0x0F0F0F0F);
  // Minus 8 in each byte: the highest bits keep the bytes from borrowing of each other.
  const auto signed_codes = [&](auto codes) {
    const auto guarded = hn::Or(hn::And(codes, low_four), sign);
    return hn::Xor(hn::Sub(guarded, hn::Set(di, 0x08080808)), sign);
  };
  for (std::int64_t i = 0; i < 4 * kGroup; i += kStep) {
    const auto both = hn::LoadU(di, words + i);
    std::int32_t* pair = out + i / kGroup * 2 * kGroup + i % kGroup;
    hn::StoreU(signed_codes(both), di, pair);
    hn::StoreU(signed_codes(hn::ShiftRight<4>(both)), di, pair + kGroup);
  }
}

void AddSums(const float* sums, std::int64_t rows, const float* init, float* out,
             std::int64_t out_stride) {
  const F d;
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t j = 0; j < kColumns; j += kStep) {
      hn::StoreU(hn::Add(hn::LoadU(d, init + j), hn::LoadU(d, sums + r * kColumns + j)), d,
                 out + r * out_stride + j);
    }
  }
}

void AddBlocks(const AmxBlockSums& b, float* HWY_RESTRICT totals) {
  constexpr std::int64_t kBlocks = AmxBlockSums::kBlocks;
  // Two vectors at a time: what they need of four blocks' scales stays in registers or nearby.
  constexpr std::int64_t kVectors = kColumns / kStep < 2 ? 1 : 2;
  const F d;
  alignas(64) float w_scales[kBlocks * kColumns];
  for (std::int64_t i = 0; i < b.blocks; ++i) {
    const auto* halves = reinterpret_cast<const std::uint16_t*>(b.w_scales + i * b.w_step);
    for (std::int64_t j = 0; j < kColumns; j += kStep) {
      hn::Store(LoadHalves(halves + j), d, w_scales + i * kColumns + j);
    }
  }
  for (std::int64_t r = 0; r < AmxRows::kRows; ++r) {
    for (std::int64_t j = 0; j < kColumns; j += kVectors * kStep) {
      VecF total[kVectors];
      float* row = totals + r * kColumns + j;
      for (std::int64_t v = 0; v < kVectors; ++v) total[v] = hn::LoadU(d, row + v * kStep);
      for (std::int64_t i = 0; i < b.blocks; ++i) {
        const VecF x_scale = hn::Set(d, b.x_scales[r * b.x_step + i]);
        const std::int32_t* sums = b.sums + i * b.sums_step + r * kColumns + j;
        for (std::int64_t v = 0; v < kVectors; ++v) {
          const VecF w_scale = hn::Load(d, w_scales + i * kColumns + j + v * kStep);
          total[v] = hn::MulAdd(hn::ConvertTo(d, hn::LoadU(I(), sums + v * kStep)),
                                hn::Mul(w_scale, x_scale), total[v]);
        }
      }
      for (std::int64_t v = 0; v < kVectors; ++v) hn::StoreU(total[v], d, row + v * kStep);
    }
  }
}

}  // namespace shardlm::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace shardlm {

HWY_EXPORT(RoundRow);
HWY_EXPORT(SignedBlock);
HWY_EXPORT(AddSums);
HWY_EXPORT(AddBlocks);

void amx_round_row(const float* x, std::int64_t length, std::uint16_t* to) {
  HWY_DYNAMIC_DISPATCH(RoundRow)(x, length, to);
}

void amx_signed_block(DType dtype, const std::byte* from, std::int8_t* to) {
  HWY_DYNAMIC_DISPATCH(SignedBlock)(dtype, from, to);
}

void amx_add_sums(const float* sums, std::int64_t rows, const float* init, float* out,
                  std::int64_t out_stride) {
  HWY_DYNAMIC_DISPATCH(AddSums)(sums, rows, init, out, out_stride);
}

void amx_add_blocks(const AmxBlockSums& blocks, float* totals) {
  HWY_DYNAMIC_DISPATCH(AddBlocks)(blocks, totals);
}

}  // namespace shardlm
#endif
