#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "tests/unit/backend/cpu_testing.h"

namespace shardlm {
namespace {

class ActivationTest : public OnEverySimdTarget {};
SHARDLM_ON_EVERY_SIMD_TARGET(ActivationTest);

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr Activation kAll[] = {Activation::gelu_tanh, Activation::gelu_erf, Activation::gelu_quick,
                               Activation::relu,      Activation::silu,     Activation::tanh};

std::vector<float> apply(Activation kind, std::vector<float> x) {
  const auto backend = make_cpu_backend(1);
  HostMatrix m(1, std::ssize(x));
  m.data = std::move(x);
  const Tensor t = upload(*backend, m);
  backend->activate(kind, t);
  return download(*backend, t).data;
}

float apply(Activation kind, float x) { return apply(kind, std::vector<float>{x})[0]; }

/// The formulas of backend.h, in double.
double exact(Activation kind, double x) {
  constexpr double kPi = 3.14159265358979323846;
  switch (kind) {
    case Activation::gelu_tanh:
      return x / (1 + std::exp(-2 * std::sqrt(2 / kPi) * (x + 0.044715 * x * x * x)));
    case Activation::gelu_erf:
      return 0.5 * x * std::erfc(-x / std::sqrt(2.0));
    case Activation::gelu_quick:
      return x / (1 + std::exp(-1.702 * x));
    case Activation::relu:
      return x > 0 ? x : 0;
    case Activation::silu:
      return x / (1 + std::exp(-x));
    case Activation::tanh:
      return std::tanh(x);
  }
  return 0;
}

TEST_P(ActivationTest, PublishedValues) {  // seven digits each
  const double near = 0.5e-7 + 2 * kRounding;
  EXPECT_NEAR(apply(Activation::gelu_tanh, 1), 0.8411920, near);
  EXPECT_NEAR(apply(Activation::gelu_erf, 1), 0.8413447, near);
  EXPECT_NEAR(apply(Activation::gelu_quick, 1), 0.8457958, near);
  EXPECT_NEAR(apply(Activation::gelu_tanh, -3), -0.0036374, near);
  EXPECT_NEAR(apply(Activation::gelu_erf, -3), -0.0040497, near);
  EXPECT_NEAR(apply(Activation::gelu_quick, -3), -0.0180713, near);
  EXPECT_EQ(apply(Activation::relu, -3), 0.0F);
  EXPECT_NEAR(apply(Activation::tanh, 0.5F), 0.4621172, near);
  EXPECT_NEAR(apply(Activation::silu, 1), 0.7310586, near);
}

// Stated errors, in units of 2^-24 of max(|x|, |y|): the exponent's rounding grows with x.
TEST_P(ActivationTest, CloseToTheFormulasFromMinusTwelveToTwelve) {
  std::vector<float> x;
  for (int i = -12'000; i <= 12'000; ++i) x.push_back(static_cast<float>(i) * 1e-3F);
  for (const Activation kind : kAll) {
    const std::vector<float> y = apply(kind, x);
    double worst = 0, worst_relative = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double want = exact(kind, x[i]), error = std::abs(y[i] - want);
      worst = std::max(worst, error / std::max({std::abs(want), 1e-3, std::abs(double{x[i]})}));
      if (x[i] > -8) worst_relative = std::max(worst_relative, error / (std::abs(want) + 1e-30));
    }
    EXPECT_LE(worst, 4 * kRounding) << static_cast<int>(kind);
    EXPECT_LE(worst_relative, kind == Activation::gelu_tanh ? 200 * kRounding : 64 * kRounding)
        << static_cast<int>(kind);
  }
}

TEST_P(ActivationTest, TinyAndLargeValues) {
  for (const Activation kind : kAll) {
    EXPECT_EQ(apply(kind, 0.0F), 0.0F);
    const double slope = kind == Activation::tanh || kind == Activation::relu ? 1 : 0.5;
    EXPECT_NEAR(apply(kind, 1e-20F), slope * 1e-20, 1e-26);
    const bool bounded = kind == Activation::tanh;
    for (const float large : {30.0F, 1e5F, 3e38F}) {
      EXPECT_EQ(apply(kind, large), bounded ? 1.0F : large) << static_cast<int>(kind);
      const float low = apply(kind, -large);
      if (bounded) {
        EXPECT_EQ(low, -1.0F);
      } else {
        EXPECT_NEAR(low, 0.0F, 1e-11) << static_cast<int>(kind) << " at " << -large;
      }
    }
  }
}

TEST_P(ActivationTest, NonFiniteValuesAreNotHidden) {
  for (const Activation kind : kAll) {
    const int name = static_cast<int>(kind);
    EXPECT_TRUE(std::isnan(apply(kind, std::numeric_limits<float>::quiet_NaN()))) << name;
    const bool bounded = kind == Activation::tanh;
    EXPECT_EQ(apply(kind, kInfinity), bounded ? 1.0F : kInfinity) << name;
    const float low = apply(kind, -kInfinity);
    if (bounded) {
      EXPECT_EQ(low, -1.0F);
    } else if (kind == Activation::relu) {
      EXPECT_EQ(low, 0.0F);
    } else {
      EXPECT_TRUE(std::isnan(low)) << name;  // -infinity times 0, as the formulas have it
    }
  }
}

TEST_P(ActivationTest, AnElementDoesNotDependOnItsPlace) {
  const HostMatrix x = random_floats(3, 4100, 1);
  const auto backend = make_cpu_backend(3);
  for (const Activation kind : kAll) {
    const Tensor t = upload(*backend, x);
    backend->activate(kind, t);
    const HostMatrix y = download(*backend, t);
    EXPECT_TRUE(same_bits(apply(kind, std::vector(x.data.begin() + 3, x.data.begin() + 1004)),
                          std::span(y.data).subspan(3, 1001)));
    EXPECT_EQ(apply(kind, x.at(2, 4099)), y.at(2, 4099));
  }
}

TEST_P(ActivationTest, LeavesTheColumnsBesideAViewAlone) {
  const auto backend = make_cpu_backend(1);
  HostMatrix ones(2, 40);
  std::ranges::fill(ones.data, -1.0F);
  const Tensor t = upload(*backend, ones);
  backend->activate(Activation::relu, t.columns(1, 38));
  const HostMatrix y = download(*backend, t);
  for (std::int64_t j = 0; j < 40; ++j) EXPECT_EQ(y.at(1, j), j >= 1 && j < 38 ? 0.0F : -1.0F);
}

}  // namespace
}  // namespace shardlm
