// Packing of a tile: what loading a model spends its time with.
#include "backend/cpu/panel_layout.h"
#include "backend/cpu/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/panel_pack.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h, which includes this file again:
#include <hwy/highway.h>

#include <cstring>
#include <limits>

#include "backend/cpu/half-inl.h"
#include "base/error.h"

HWY_BEFORE_NAMESPACE();
namespace shardlm::HWY_NAMESPACE {

using I = hn::RebindToSigned<F>;
using VecI = hn::Vec<I>;
constexpr std::int64_t kOutputs = PanelLayout::kOutputs;
constexpr std::int64_t kInputs = PanelLayout::kInputs;
constexpr std::int64_t kStep = static_cast<std::int64_t>(kLanes);

void PackHalves(const float* HWY_RESTRICT values, std::int64_t inputs, std::byte* to) {
  auto* out = reinterpret_cast<std::uint16_t*>(to);
  for (std::int64_t i = 0; i < inputs * kOutputs; i += kStep) {
    StoreNarrow(HalfBits(hn::LoadU(F(), values + i)), out + i);
  }
}

void PackBfloats(const float* HWY_RESTRICT values, std::int64_t inputs, std::byte* to) {
  const F d;
  const U du;
  auto* out = reinterpret_cast<std::uint32_t*>(to);
  for (std::int64_t k = 0; k < inputs; k += 2) {
    for (std::int64_t j = 0; j < kOutputs; j += kStep) {
      const float* from = values + k * kOutputs + j;
      const VecU low = hn::ShiftRight<16>(UpperBfloatBits(hn::LoadU(d, from)));
      // A tile has an even number of rows, the one behind the last holds zeros.
      const VecU high = UpperBfloatBits(hn::LoadU(d, from + kOutputs));
      hn::StoreU(hn::Or(low, high), du, out + k / 2 * kOutputs + j);
    }
  }
}

/// Of a block of 32 inputs in each lane: the value of the largest magnitude, of equal ones the
/// first; NaN if one of them is no finite number.
HWY_INLINE VecF Extreme(const float* HWY_RESTRICT block) {
  const F d;
  const I di;
  VecF extreme = hn::Zero(d);
  VecI most = hn::Zero(di);
  for (std::int64_t k = 0; k < kInputs; ++k) {
    const VecF value = hn::LoadU(d, block + k * kOutputs);
    // As bit patterns: those of infinities and NaNs are the largest.
    const VecI magnitude = hn::BitCast(di, hn::Abs(value));
    extreme = hn::IfThenElse(hn::RebindMask(d, hn::Gt(magnitude, most)), value, extreme);
    most = hn::Max(most, magnitude);
  }
  const auto finite = hn::RebindMask(d, hn::Lt(most, hn::Set(di, 0x7F800000)));
  return hn::IfThenElse(finite, extreme, hn::Set(d, std::numeric_limits<float>::quiet_NaN()));
}

/// value / scale to the nearest whole number from least to most; 0 where the scale is no divisor.
HWY_INLINE VecI Codes(VecF value, VecF scale, float least, float most) {
  const F d;
  const auto divides = hn::And(hn::Ne(scale, hn::Zero(d)),
                               hn::Lt(hn::Abs(scale), hn::Set(d, 0x1p17F)));  // no NaN, no infinity
  const VecF ratio =
      hn::Div(hn::IfThenElseZero(divides, value), hn::IfThenElse(divides, scale, hn::Set(d, 1.0F)));
  return hn::NearestInt(hn::Min(hn::Max(ratio, hn::Set(d, least)), hn::Set(d, most)));
}

/// Rounds scales to float16, stores them, and returns what they are worth then.
HWY_INLINE VecF StoreScales(VecF scale, std::byte* to, std::int64_t output) {
  const VecU half = HalfBits(scale);
  StoreNarrow(half, reinterpret_cast<std::uint16_t*>(to) + output);
  return HalfValues(half);
}

void PackQ8(const float* HWY_RESTRICT values, std::byte* to) {
  const F d;
  const I di;
  auto* out = reinterpret_cast<std::int32_t*>(to + PanelLayout::kScaleBytes);
  for (std::int64_t j = 0; j < kOutputs; j += kStep) {
    const VecF most = hn::Abs(Extreme(values + j));
    const VecF scale = StoreScales(hn::Div(most, hn::Set(d, 127.0F)), to, j);
    for (std::int64_t group = 0; group < kInputs / 4; ++group) {
      const auto code = [&](std::int64_t i) {
        const VecF value = hn::LoadU(d, values + (4 * group + i) * kOutputs + j);
        return hn::Add(Codes(value, scale, -127.0F, 127.0F), hn::Set(di, 128));
      };
      const VecI low = hn::Or(code(0), hn::ShiftLeft<8>(code(1)));
      const VecI high = hn::Or(code(2), hn::ShiftLeft<8>(code(3)));
      hn::StoreU(hn::Or(low, hn::ShiftLeft<16>(high)), di, out + group * kOutputs + j);
    }
  }
}

/// The sum of the squared errors that int4 values of this scale leave. No fused multiply-adds: the
/// same choice on every instruction set.
HWY_INLINE VecF SquaredError(const float* HWY_RESTRICT block, VecF scale) {
  const F d;
  const VecF inverse = hn::Div(hn::Set(d, 1.0F), scale);
  const VecF least = hn::Set(d, -8.0F), most = hn::Set(d, 7.0F);
  VecF sum = hn::Zero(d);
  for (std::int64_t k = 0; k < kInputs; ++k) {
    const VecF value = hn::LoadU(d, block + k * kOutputs);
    const VecF code = hn::Min(hn::Max(hn::Round(hn::Mul(value, inverse)), least), most);
    const VecF error = hn::Sub(hn::Mul(code, scale), value);
    sum = hn::Add(sum, hn::Mul(error, error));
  }
  return sum;
}

HWY_INLINE VecF BestQ4Scale(const float* HWY_RESTRICT block) {
  const F d;
  const VecF extreme = Extreme(block);
  VecF best = hn::Div(extreme, hn::Set(d, -8.0F));
  VecF least = SquaredError(block, best);
  for (const float divisor : {-7.0F, -7.5F, -8.5F}) {
    const VecF scale = hn::Div(extreme, hn::Set(d, divisor));
    const VecF error = SquaredError(block, scale);
    const auto better = hn::Lt(error, least);  // false for NaN: zeros, or no finite numbers
    best = hn::IfThenElse(better, scale, best);
    least = hn::IfThenElse(better, error, least);
  }
  return best;
}

void PackQ4(const float* HWY_RESTRICT values, std::byte* to) {
  const F d;
  const I di;
  auto* out = reinterpret_cast<std::int32_t*>(to + PanelLayout::kScaleBytes);
  for (std::int64_t j = 0; j < kOutputs; j += kStep) {
    const VecF scale = StoreScales(BestQ4Scale(values + j), to, j);
    for (std::int64_t pair = 0; pair < kInputs / 8; ++pair) {
      const auto code = [&](std::int64_t i) {
        const VecF value = hn::LoadU(d, values + (8 * pair + i) * kOutputs + j);
        return hn::Add(Codes(value, scale, -8.0F, 7.0F), hn::Set(di, 8));
      };
      VecI word = hn::Or(code(0), hn::ShiftLeft<4>(code(4)));
      word = hn::Or(word, hn::ShiftLeft<8>(hn::Or(code(1), hn::ShiftLeft<4>(code(5)))));
      word = hn::Or(word, hn::ShiftLeft<16>(hn::Or(code(2), hn::ShiftLeft<4>(code(6)))));
      word = hn::Or(word, hn::ShiftLeft<24>(hn::Or(code(3), hn::ShiftLeft<4>(code(7)))));
      hn::StoreU(word, di, out + pair * kOutputs + j);
    }
  }
}

}  // namespace shardlm::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace shardlm {

HWY_EXPORT(PackHalves);
HWY_EXPORT(PackBfloats);
HWY_EXPORT(PackQ8);
HWY_EXPORT(PackQ4);

void pack_tile(DType dtype, const float* values, std::int64_t inputs, std::byte* to) {
  switch (dtype) {
    case DType::f32:
      std::memcpy(to, values,
                  static_cast<std::size_t>(inputs * PanelLayout::kOutputs) * sizeof(float));
      return;
    case DType::f16:
      return HWY_DYNAMIC_DISPATCH(PackHalves)(values, inputs, to);
    case DType::bf16:
      return HWY_DYNAMIC_DISPATCH(PackBfloats)(values, inputs, to);
    case DType::q8:
      return HWY_DYNAMIC_DISPATCH(PackQ8)(values, to);
    case DType::q4:
      return HWY_DYNAMIC_DISPATCH(PackQ4)(values, to);
    default:
      check(false, "a type of packed weights");
  }
}

}  // namespace shardlm
#endif
