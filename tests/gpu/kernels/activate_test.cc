#include "backend/cuda/kernels/activate.h"

#include "tests/gpu/kernels/device.h"

namespace shardlm::cuda {
namespace {

using Layout = DeviceMatrix::Layout;
constexpr double kEpsilon = 0x1p-24;
const std::vector<Activation> kKinds{Activation::gelu_tanh,  Activation::gelu_erf,
                                     Activation::gelu_quick, Activation::relu,
                                     Activation::silu,       Activation::tanh};

class Activate : public KernelTest {};
SHARDLM_EVERY_THREAD_ORDER(Activate);
class AddBias : public KernelTest {};
SHARDLM_EVERY_THREAD_ORDER(AddBias);

/// The formulas of backend.h in double precision.
double formula(Activation kind, double x) {
  switch (kind) {
    case Activation::gelu_tanh:  // 0.5 (1 + tanh(u)), without the cancellation on the negative side
      return x / (1 + std::exp(-2 * std::sqrt(2 / std::acos(-1.0)) * (x + 0.044715 * x * x * x)));
    case Activation::gelu_erf:
      return 0.5 * x * std::erfc(-x / std::sqrt(2.0));
    case Activation::gelu_quick:
      return x / (1 + std::exp(-1.702 * x));
    case Activation::relu:
      return x < 0 ? 0 : x;
    case Activation::silu:
      return x / (1 + std::exp(-x));
    case Activation::tanh:
      return std::tanh(x);
  }
  return std::nan("");
}

/// Relative error of formula(kind, x) in float32: a few roundings and functions of 4 ulp at most;
/// the exponent of exp, and the argument of erfc, turn their own rounding errors into |argument|
/// times as much (erfc: |u| * 2 |u| with u = x / sqrt(2)).
double limit(Activation kind, double x) {
  const double exponent = kind == Activation::gelu_tanh
                              ? 1.6 * (std::abs(x) + 0.05 * std::pow(std::abs(x), 3))
                          : kind == Activation::gelu_erf ? x * x
                                                         : 1.702 * std::abs(x);
  return kEpsilon * (16 + 4 * exponent);
}

void expect_activated(std::optional<Activation> kind, const std::vector<double>& x, DType dtype,
                      const std::vector<float>& got) {
  ASSERT_EQ(got.size(), x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::vector<double> want{kind ? formula(*kind, x[i]) : x[i]};
    const double relative = kind ? limit(*kind, x[i]) : kEpsilon;
    EXPECT_TRUE(all_near(std::span(&got[i], 1), want, smallest(dtype) + 0x1p-126,
                         1.01 * (relative + rounding(dtype))))
        << "kind " << (kind ? static_cast<int>(*kind) : -1) << " of " << x[i];
  }
}

TEST_P(Activate, EveryKindAndType) {
  for (const Activation kind : kKinds) {
    for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
      for (const Layout layout : {Layout{}, Layout{.gap = 8, .offset = 8}, Layout{2, 1}}) {
        const auto values = random_values(3 * 65, 11, dtype, 6);
        const DeviceMatrix x(dtype, 3, 65, values, layout);
        activate(stream, kind, x.view());
        stream.finish();
        expect_activated(kind, {values.begin(), values.end()}, dtype, x.values());
      }
    }
  }
}

TEST_P(Activate, LargeSmallAndSpecialValues) {
  const float inf = std::numeric_limits<float>::infinity();
  const std::vector<float> values{0,    -0.0F, 1e-30F, -1e-30F, 30, -30,
                                  3e4F, -3e4F, 1e30F,  -1e30F,  inf};
  for (const Activation kind : kKinds) {
    std::vector<float> with_nan = values;
    with_nan.push_back(std::nanf(""));
    const DeviceMatrix x(DType::f32, 1, std::ssize(with_nan), with_nan);
    activate(stream, kind, x.view());
    stream.finish();
    auto got = x.values();
    EXPECT_TRUE(std::isnan(got.back()));
    got.pop_back();
    expect_activated(kind, {values.begin(), values.end()}, DType::f32, got);
  }
}

TEST_P(Activate, NothingToDo) {
  const DeviceMatrix no_rows(DType::f16, 0, 9), no_columns(DType::f32, 4, 0);
  activate(stream, Activation::relu, no_rows.view());
  activate(stream, Activation::relu, no_columns.view());
}

TEST_P(AddBias, ThenTheActivation) {
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    for (const DType bias_type : {DType::f32, dtype}) {
      for (const Layout layout : {Layout{}, Layout{.gap = 3, .offset = 1}}) {
        for (const std::int64_t n : {1, 24, 63}) {
          const auto values = random_values(5 * n, 12, dtype, 2);
          const auto bias = random_values(n, 13, bias_type);
          const DeviceMatrix device_bias(bias_type, 1, n, bias, layout);
          std::vector<double> sums;
          for (std::size_t i = 0; i < values.size(); ++i) {
            sums.push_back(values[i] + bias[i % static_cast<std::size_t>(n)]);
          }
          const DeviceMatrix x(dtype, 5, n, values, layout);
          add_bias(stream, device_bias.view(), std::nullopt, x.view());
          stream.finish();
          expect_activated(std::nullopt, sums, dtype, x.values());
          const DeviceMatrix y(dtype, 5, n, values, layout);
          add_bias(stream, device_bias.view(), Activation::gelu_tanh, y.view());
          stream.finish();
          expect_activated(Activation::gelu_tanh, sums, dtype, y.values());
        }
      }
    }
  }
}

TEST_P(AddBias, RefusesAnotherShape) {
  const DeviceMatrix x(DType::f32, 2, 4), bias(DType::f32, 1, 3), two(DType::f32, 2, 4);
  EXPECT_THROW(add_bias(stream, bias.view(), std::nullopt, x.view()), std::exception);
  EXPECT_THROW(add_bias(stream, two.view(), std::nullopt, x.view()), std::exception);
}

}  // namespace
}  // namespace shardlm::cuda
