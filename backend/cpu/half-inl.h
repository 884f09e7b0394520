// float16 and bfloat16 in vectors, as bits in lanes of 32. Included once for every instruction set;
// see Highway's documentation of foreach_target.h for the unusual guard. Highway's own conversions
// are used where the processor does them; its emulations do not round and carry NaNs as we need.
#if defined(SHARDLM_BACKEND_CPU_HALF_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SHARDLM_BACKEND_CPU_HALF_INL_H_
#undef SHARDLM_BACKEND_CPU_HALF_INL_H_
#else
#define SHARDLM_BACKEND_CPU_HALF_INL_H_
#endif

#include <hwy/highway.h>

#include <cstdint>

#include "backend/cpu/simd_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace shardlm::HWY_NAMESPACE {

using U = hn::RebindToUnsigned<F>;
using VecU = hn::Vec<U>;

/// What base/dtype.h's from_float32 makes of floats: bits of float16, to nearest even.
HWY_INLINE VecU HalfBits(VecF x) {
  const F d;
  const U du;
  const VecU word = hn::BitCast(du, x);
  const VecU sign = hn::And(hn::ShiftRight<16>(word), hn::Set(du, 0x8000U));
  const VecU magnitude = hn::And(word, hn::Set(du, 0x7FFFFFFFU));
  const VecU odd = hn::And(hn::ShiftRight<13>(magnitude), hn::Set(du, 1U));
  const VecU normal = hn::ShiftRight<13>(
      hn::Sub(hn::Add(hn::Add(magnitude, hn::Set(du, 0xFFFU)), odd), hn::Set(du, 0x38000000U)));
  const VecU small = hn::Sub(hn::BitCast(du, hn::Add(hn::BitCast(d, magnitude), hn::Set(d, 0.5F))),
                             hn::Set(du, 0x3F000000U));
  // As signed numbers, which magnitudes are: not every instruction set compares unsigned ones.
  const hn::RebindToSigned<F> di;
  const auto size = hn::BitCast(di, magnitude);
  const auto below = [&](std::int32_t bound) {
    return hn::RebindMask(du, hn::Lt(size, hn::Set(di, bound)));
  };
  VecU half = hn::IfThenElse(below(0x38800000), small, normal);
  half = hn::IfThenElse(below(0x477FF000), half, hn::Set(du, 0x7C00U));
  half = hn::IfThenElse(below(0x7F800001), half, hn::Set(du, 0x7E00U));
  return hn::Or(sign, half);
}

/// The inverse.
HWY_INLINE VecF HalfValues(VecU half) {
  const F d;
  const U du;
  const hn::RebindToSigned<F> di;
  const VecU magnitude = hn::And(half, hn::Set(du, 0x7FFFU));
  const auto size = hn::BitCast(di, magnitude);
  const VecF small = hn::Mul(hn::ConvertTo(d, size), hn::Set(d, 0x1p-24F));
  const VecU moved = hn::ShiftLeft<13>(magnitude);
  const auto is_small = hn::RebindMask(d, hn::Lt(size, hn::Set(di, 0x400)));
  const auto is_finite = hn::RebindMask(du, hn::Lt(size, hn::Set(di, 0x7C00)));
  const VecU rebias = hn::IfThenElse(is_finite, hn::Set(du, 0x38000000U), hn::Set(du, 0x70000000U));
  const VecF value = hn::IfThenElse(is_small, small, hn::BitCast(d, hn::Add(moved, rebias)));
  const VecU sign = hn::ShiftLeft<16>(hn::And(half, hn::Set(du, 0x8000U)));
  return hn::BitCast(d, hn::Or(hn::BitCast(du, value), sign));
}

/// kLanes float16 numbers in memory.
HWY_INLINE VecF LoadHalves(const std::uint16_t* from) {
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX2
  const hn::Rebind<hwy::float16_t, F> dh;
  return hn::PromoteTo(F(), hn::LoadU(dh, reinterpret_cast<const hwy::float16_t*>(from)));
#else
  return HalfValues(hn::PromoteTo(U(), hn::LoadU(hn::Rebind<std::uint16_t, F>(), from)));
#endif
}

/// Lanes of 16 bits in lanes of 32 to memory.
HWY_INLINE void StoreNarrow(VecU bits, std::uint16_t* to) {
  const hn::RebindToSigned<F> di;
  const hn::Rebind<std::uint16_t, F> dh;
  hn::StoreU(hn::DemoteTo(dh, hn::BitCast(di, bits)), dh, to);
}

/// Bits of bfloat16 in the upper halves of the lanes, the lower halves zero; to nearest even.
HWY_INLINE VecU UpperBfloatBits(VecF x) {
  const U du;
  const VecU word = hn::BitCast(du, x);
  const VecU odd = hn::And(hn::ShiftRight<16>(word), hn::Set(du, 1U));
  const VecU rounded = hn::Add(hn::Add(word, hn::Set(du, 0x7FFFU)), odd);
  const VecU quiet = hn::Or(word, hn::Set(du, 0x400000U));
  const VecU kept = hn::IfThenElse(hn::RebindMask(du, hn::IsNaN(x)), quiet, rounded);
  return hn::And(kept, hn::Set(du, 0xFFFF0000U));
}

}  // namespace shardlm::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
