// Vectorised functions. Included once for every instruction set; see Highway's documentation of
// foreach_target.h for the unusual guard.
#if defined(SHARDLM_BACKEND_CPU_SIMD_MATH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SHARDLM_BACKEND_CPU_SIMD_MATH_INL_H_
#undef SHARDLM_BACKEND_CPU_SIMD_MATH_INL_H_
#else
#define SHARDLM_BACKEND_CPU_SIMD_MATH_INL_H_
#endif

#include <hwy/contrib/math/math-inl.h>
#include <hwy/highway.h>

#include <cstddef>
#include <cstring>

HWY_BEFORE_NAMESPACE();
namespace shardlm::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using F = hn::ScalableTag<float>;
using VecF = hn::Vec<F>;
constexpr std::size_t kLanes = hn::MaxLanes(F());

/// The first `count` < kLanes floats at p, other lanes `rest`. Reads nothing behind them.
HWY_INLINE VecF LoadPart(const float* p, std::size_t count, float rest = 0.0F) {
  alignas(64) float lanes[kLanes];
  for (std::size_t i = 0; i < kLanes; ++i) lanes[i] = i < count ? p[i] : rest;
  return hn::Load(F(), lanes);
}

HWY_INLINE void StorePart(VecF v, float* p, std::size_t count) {
  alignas(64) float lanes[kLanes];
  hn::Store(v, F(), lanes);
  std::memcpy(p, lanes, count * sizeof(float));
}

/// e^x: within 1 unit in the last place (2^-23 relative), down to the denormals; 0 at -infinity,
/// infinity above 88.73, NaN for NaN.
HWY_INLINE VecF ExpAll(VecF x) {
  const F d;
  const auto is_nan = hn::IsNaN(x);
  // Highway's Exp holds on [-max, 104] and makes 0 of NaN.
  const VecF inside =
      hn::Min(hn::Max(hn::IfThenZeroElse(is_nan, x), hn::Set(d, -110.0F)), hn::Set(d, 104.0F));
  return hn::IfThenElse(is_nan, x, hn::Exp(d, inside));
}

/// tanh(x): within 4 units in the last place; NaN for NaN.
HWY_INLINE VecF TanhAll(VecF x) {
  const F d;
  const auto is_nan = hn::IsNaN(x);
  const VecF inside =
      hn::Min(hn::Max(hn::IfThenZeroElse(is_nan, x), hn::Set(d, -20.0F)), hn::Set(d, 20.0F));
  return hn::IfThenElse(is_nan, x, hn::Tanh(d, inside));
}

/// 1 / (1 + e^-x).
HWY_INLINE VecF Sigmoid(VecF x) {
  const VecF one = hn::Set(F(), 1.0F);
  return hn::Div(one, hn::Add(one, ExpAll(hn::Neg(x))));
}

/// The standard normal distribution's upper tail, 0.5 erfc(z / sqrt(2)), for z >= 0. Relative error
/// below 3e-7 (1 + z^2 / 4). e^(y^2) erfc(y) / t as a polynomial in t = 1 / (1 + y / 2): a
/// least-squares fit of the relative error on y in [0, 10], 2.3e-8 at most.
HWY_INLINE VecF NormalTail(VecF z) {
  const F d;
  const VecF y = hn::Mul(z, hn::Set(d, 0.70710678F));
  const VecF one = hn::Set(d, 1.0F);
  const VecF t = hn::Div(one, hn::MulAdd(hn::Set(d, 0.5F), y, one));
  constexpr float kFit[] = {0.282062883F,  0.282894015F, 0.23828823F,   0.22744552F,
                            -0.10452848F,  0.434151878F, -0.687045796F, 0.442811133F,
                            -0.129614048F, 0.0135346491F};
  constexpr std::size_t kTerms = sizeof(kFit) / sizeof(kFit[0]);
  VecF p = hn::Set(d, kFit[kTerms - 1]);
  for (std::size_t i = kTerms - 1; i-- > 0;) p = hn::MulAdd(p, t, hn::Set(d, kFit[i]));
  const VecF bell = ExpAll(hn::Mul(hn::Mul(z, z), hn::Set(d, -0.5F)));
  return hn::Mul(hn::Mul(hn::Set(d, 0.5F), hn::Mul(t, p)), bell);
}

}  // namespace shardlm::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
