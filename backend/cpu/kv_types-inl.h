// How keys and values are stored, one struct a type: T, whether elements have a scale, and vectors
// to and from float32. Included once for every instruction set; see simd_math-inl.h.
#if defined(SHARDLM_BACKEND_CPU_KV_TYPES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SHARDLM_BACKEND_CPU_KV_TYPES_INL_H_
#undef SHARDLM_BACKEND_CPU_KV_TYPES_INL_H_
#else
#define SHARDLM_BACKEND_CPU_KV_TYPES_INL_H_
#endif

#include <hwy/highway.h>

#include <cstdint>

#include "backend/cpu/simd_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace shardlm::HWY_NAMESPACE {

using I32 = hn::RebindToSigned<F>;
using U32 = hn::RebindToUnsigned<F>;
using U16 = hn::Rebind<std::uint16_t, F>;
using I8 = hn::Rebind<std::int8_t, F>;
using F16 = hn::Rebind<hwy::float16_t, F>;

HWY_INLINE hn::Vec<U16> LowHalves(hn::Vec<U32> words) {  // all below 2^16
  return hn::DemoteTo(U16(), hn::BitCast(I32(), words));
}

struct KvF32 {
  using T = float;
  static constexpr bool kScaled = false;
  static HWY_INLINE VecF Load(const T* p) { return hn::Load(F(), p); }
  static HWY_INLINE void Store(VecF x, T* p) { hn::Store(x, F(), p); }
};

struct KvBf16 {
  using T = std::uint16_t;
  static constexpr bool kScaled = false;
  static HWY_INLINE VecF Load(const T* p) {
    return hn::BitCast(F(), hn::ShiftLeft<16>(hn::PromoteTo(U32(), hn::Load(U16(), p))));
  }
  static HWY_INLINE void Store(VecF x, T* p) {  // to nearest even; a NaN stays one
    const U32 d;
    const auto word = hn::BitCast(d, x);
    const auto odd = hn::And(hn::ShiftRight<16>(word), hn::Set(d, 1U));
    const auto rounded = hn::Add(hn::Add(word, odd), hn::Set(d, 0x7fffU));
    const auto quiet = hn::Or(word, hn::Set(d, 0x400000U));
    const auto is_nan = hn::RebindMask(d, hn::IsNaN(x));
    const auto top = hn::ShiftRight<16>(hn::IfThenElse(is_nan, quiet, rounded));
    hn::Store(LowHalves(top), U16(), p);
  }
};

struct KvF16 {
  using T = std::uint16_t;
  static constexpr bool kScaled = false;
  // The processor's own conversion. Highway's replacements of it cut instead of rounding.
  static constexpr bool kNative = HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX2;

  static HWY_INLINE VecF Load(const T* p) {
    const auto half = hn::Load(U16(), p);
    if constexpr (kNative) {
      return hn::PromoteTo(F(), hn::BitCast(F16(), half));
    } else {  // subnormals are scaled by an exact multiplication
      const U32 d;
      const auto word = hn::PromoteTo(d, half);
      const auto sign = hn::ShiftLeft<16>(hn::And(word, hn::Set(d, 0x8000U)));
      const auto magnitude = hn::ShiftLeft<13>(hn::And(word, hn::Set(d, 0x7fffU)));
      const auto finite = hn::Mul(hn::BitCast(F(), magnitude), hn::Set(F(), 0x1p112F));
      const auto special = hn::Or(magnitude, hn::Set(d, 0x7f800000U));
      const auto is_special =
          hn::Gt(hn::BitCast(I32(), magnitude), hn::Set(I32(), (0x7c00 << 13) - 1));
      const auto value =
          hn::IfThenElse(hn::RebindMask(d, is_special), special, hn::BitCast(d, finite));
      return hn::BitCast(F(), hn::Or(value, sign));
    }
  }
  static HWY_INLINE void Store(VecF x, T* p) {  // to nearest even; beyond the range: infinity
    if constexpr (kNative) {
      hn::Store(hn::BitCast(U16(), hn::DemoteTo(F16(), x)), U16(), p);
    } else {  // as base/dtype.cc does it
      const U32 d;
      const auto word = hn::BitCast(d, x);
      const auto sign = hn::And(hn::ShiftRight<16>(word), hn::Set(d, 0x8000U));
      const auto magnitude = hn::And(word, hn::Set(d, 0x7fffffffU));
      const auto below = [&](std::uint32_t limit) HWY_ATTR {
        return hn::RebindMask(d, hn::Lt(hn::BitCast(I32(), magnitude),
                                        hn::Set(I32(), static_cast<std::int32_t>(limit))));
      };
      const auto small =
          hn::Sub(hn::BitCast(d, hn::Add(hn::BitCast(F(), magnitude), hn::Set(F(), 0.5F))),
                  hn::Set(d, 0x3f000000U));
      const auto odd = hn::And(hn::ShiftRight<13>(magnitude), hn::Set(d, 1U));
      const auto rounded = hn::ShiftRight<13>(
          hn::Sub(hn::Add(hn::Add(magnitude, odd), hn::Set(d, 0xfffU)), hn::Set(d, 0x38000000U)));
      auto half = hn::IfThenElse(below(0x38800000U), small, rounded);
      half = hn::IfThenElse(below(0x477ff000U), half, hn::Set(d, 0x7c00U));
      half = hn::IfThenElse(below(0x7f800001U), half, hn::Set(d, 0x7e00U));
      hn::Store(LowHalves(hn::Or(half, sign)), U16(), p);
    }
  }
};

struct KvI8 {
  using T = std::int8_t;
  static constexpr bool kScaled = true;
  static HWY_INLINE VecF Load(const T* p) {
    return hn::ConvertTo(F(), hn::PromoteTo(I32(), hn::Load(I8(), p)));
  }
  static HWY_INLINE void Store(VecF x, T* p) {  // to nearest even
    hn::Store(hn::DemoteTo(I8(), hn::NearestInt(x)), I8(), p);
  }
};

}  // namespace shardlm::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
