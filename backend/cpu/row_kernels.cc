#include "backend/cpu/row_kernels.h"

#include "backend/cpu/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/row_kernels.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h, which includes this file again:
#include <hwy/highway.h>

#include <cmath>

#include "backend/cpu/simd_math-inl.h"
#include "base/error.h"

HWY_BEFORE_NAMESPACE();
namespace shardlm::HWY_NAMESPACE {

/// Calls op(i, kLanes) for whole vectors of n elements, then op(i, what remains).
template <class Op>
HWY_INLINE void ForVectors(std::int64_t n, const Op& op) {
  const auto count = static_cast<std::size_t>(n);
  std::size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) op(i, kLanes);
  if (i < count) op(i, count - i);
}

HWY_INLINE VecF LoadSome(const float* p, std::size_t count) {
  return count == kLanes ? hn::LoadU(F(), p) : LoadPart(p, count);
}

HWY_INLINE void StoreSome(VecF v, float* p, std::size_t count) {
  if (count == kLanes) {
    hn::StoreU(v, F(), p);
  } else {
    StorePart(v, p, count);
  }
}

float SumOf(const float* x, std::int64_t n) {
  VecF sum = hn::Zero(F());
  ForVectors(n, [&](std::size_t i, std::size_t count)
                    HWY_ATTR { sum = hn::Add(sum, LoadSome(x + i, count)); });
  return hn::GetLane(hn::SumOfLanes(F(), sum));
}

float SumOfSquaredDifferences(const float* x, std::int64_t n, float mean) {
  const VecF center = hn::Set(F(), mean);
  VecF sum = hn::Zero(F());
  ForVectors(n, [&](std::size_t i, std::size_t count) HWY_ATTR {
    // Lanes behind the end count as the mean: no difference.
    const VecF value = count == kLanes ? hn::LoadU(F(), x + i) : LoadPart(x + i, count, mean);
    const VecF difference = hn::Sub(value, center);
    sum = hn::MulAdd(difference, difference, sum);
  });
  return hn::GetLane(hn::SumOfLanes(F(), sum));
}

void LayerNormRow(const float* x, const LayerNormParams& norm, std::int64_t n, float* out) {
  const float mean = SumOf(x, n) / static_cast<float>(n);
  const float variance = SumOfSquaredDifferences(x, n, mean) / static_cast<float>(n);
  const VecF center = hn::Set(F(), mean);
  const VecF scale = hn::Set(F(), 1.0F / std::sqrt(variance + norm.epsilon));
  const float* weight = norm.weight.row(0);
  const float* bias = norm.bias.row(0);
  ForVectors(n, [&](std::size_t i, std::size_t count) HWY_ATTR {
    const VecF normal = hn::Mul(hn::Sub(LoadSome(x + i, count), center), scale);
    StoreSome(hn::MulAdd(normal, LoadSome(weight + i, count), LoadSome(bias + i, count)), out + i,
              count);
  });
}

void AddToRow(std::span<const Tensor> addends, std::int64_t row, const float* bias, std::int64_t n,
              float* residual) {
  ForVectors(n, [&](std::size_t i, std::size_t count) HWY_ATTR {
    VecF sum = LoadSome(addends[0].row(row) + i, count);
    for (std::size_t a = 1; a < addends.size(); ++a) {
      sum = hn::Add(sum, LoadSome(addends[a].row(row) + i, count));
    }
    if (bias != nullptr) sum = hn::Add(sum, LoadSome(bias + i, count));
    StoreSome(hn::Add(LoadSome(residual + i, count), sum), residual + i, count);
  });
}

/// The sum of integers becomes a float through float64, as from_fixed() does; so vectors are of as
/// many floats as float64s.
void AddFixedToRow(std::span<const Tensor> addends, std::int64_t row, const float* bias,
                   std::int64_t n, float* residual) {
  using D = hn::ScalableTag<double>;
  constexpr auto kStep = static_cast<std::int64_t>(hn::MaxLanes(D()));
  const D d;
  const hn::Rebind<float, D> df;
  const hn::RebindToSigned<D> di;
  const auto unit = hn::Set(d, 1 / kFixedOne);
  std::int64_t i = 0;
  for (; i + kStep <= n; i += kStep) {
    auto fixed = hn::LoadU(di, addends[0].fixed_row(row) + i);
    for (std::size_t a = 1; a < addends.size(); ++a) {
      fixed = hn::Add(fixed, hn::LoadU(di, addends[a].fixed_row(row) + i));
    }
    auto sum = hn::DemoteTo(df, hn::Mul(hn::ConvertTo(d, fixed), unit));
    if (bias != nullptr) sum = hn::Add(sum, hn::LoadU(df, bias + i));
    hn::StoreU(hn::Add(hn::LoadU(df, residual + i), sum), df, residual + i);
  }
  for (; i < n; ++i) {
    std::int64_t fixed = 0;
    for (const Tensor& addend : addends) fixed += addend.fixed_row(row)[i];
    float sum = from_fixed(fixed);
    if (bias != nullptr) sum += bias[i];
    residual[i] += sum;
  }
}

template <class Function>
HWY_INLINE void Replace(std::int64_t n, float* x, const Function& function) {
  ForVectors(n, [&](std::size_t i, std::size_t count)
                    HWY_ATTR { StoreSome(function(LoadSome(x + i, count)), x + i, count); });
}

struct GeluTanh {  // 0.5 (1 + tanh(u)) = sigmoid(2 u), without the cancellation
  HWY_INLINE VecF operator()(VecF x) const {
    const VecF cube = hn::Mul(hn::Mul(x, x), x);
    const VecF u = hn::MulAdd(hn::Set(F(), 0.044715F), cube, x);
    return hn::Mul(x, Sigmoid(hn::Mul(u, hn::Set(F(), 1.5957691216F))));  // 2 sqrt(2 / pi)
  }
};
struct GeluErf {  // from the tail on both sides: exact to the last digits for negative x too
  HWY_INLINE VecF operator()(VecF x) const {
    const VecF tail = NormalTail(hn::Abs(x));
    const VecF lower = hn::Sub(hn::Set(F(), 1.0F), tail);
    return hn::Mul(x, hn::IfThenElse(hn::Lt(x, hn::Zero(F())), tail, lower));
  }
};
struct GeluQuick {
  HWY_INLINE VecF operator()(VecF x) const {
    return hn::Mul(x, Sigmoid(hn::Mul(x, hn::Set(F(), 1.702F))));
  }
};
struct Relu {  // a NaN stays one
  HWY_INLINE VecF operator()(VecF x) const {
    return hn::IfThenZeroElse(hn::Lt(x, hn::Zero(F())), x);
  }
};
struct Silu {
  HWY_INLINE VecF operator()(VecF x) const { return hn::Mul(x, Sigmoid(x)); }
};
struct TanhFunction {
  HWY_INLINE VecF operator()(VecF x) const { return TanhAll(x); }
};

void ActivateRow(Activation kind, std::int64_t n, float* x) {
  switch (kind) {
    case Activation::gelu_tanh:
      return Replace(n, x, GeluTanh());
    case Activation::gelu_erf:
      return Replace(n, x, GeluErf());
    case Activation::gelu_quick:
      return Replace(n, x, GeluQuick());
    case Activation::relu:
      return Replace(n, x, Relu());
    case Activation::silu:
      return Replace(n, x, Silu());
    case Activation::tanh:
      return Replace(n, x, TanhFunction());
  }
  check(false, "activate: an unknown kind");
}

}  // namespace shardlm::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace shardlm {

HWY_EXPORT(LayerNormRow);
HWY_EXPORT(AddToRow);
HWY_EXPORT(AddFixedToRow);
HWY_EXPORT(ActivateRow);

void layer_norm_row(const float* x, const LayerNormParams& norm, std::int64_t n, float* out) {
  HWY_DYNAMIC_DISPATCH(LayerNormRow)(x, norm, n, out);
}

void add_to_row(std::span<const Tensor> addends, std::int64_t row, const float* bias,
                std::int64_t n, float* residual) {
  if (addends[0].dtype() == DType::i64) {
    return HWY_DYNAMIC_DISPATCH(AddFixedToRow)(addends, row, bias, n, residual);
  }
  HWY_DYNAMIC_DISPATCH(AddToRow)(addends, row, bias, n, residual);
}

void activate_row(Activation kind, std::int64_t n, float* x) {
  HWY_DYNAMIC_DISPATCH(ActivateRow)(kind, n, x);
}

}  // namespace shardlm
#endif
