#include "backend/cpu/logit_math.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>

#include "backend/cpu/simd.h"

namespace shardlm {
namespace {

TEST(LogitMath, UniformsAreThoseOfPhiloxOnEveryInstructionSet) {
  const NoiseKey key{
      .seed = 0xfedcba9876543210, .sequence = 0x1122334455667788, .position = 0xffffffff};
  for (const std::string& target : cpu_simd_targets()) {
    const ForcedSimdTarget forced(target);
    for (const std::int32_t first :
         {0, 1, 6, 50257, std::numeric_limits<std::int32_t>::max() - 511}) {
      for (const std::size_t n : {kLogitGroup, kLogitChunk}) {
        std::array<double, kLogitChunk> u;
        uniforms(key, first, std::span(u).first(n));
        for (std::size_t i = 0; i < n; ++i) {
          ASSERT_EQ(u[i], uniform(key, first + static_cast<std::int32_t>(i))) << target << " " << i;
        }
      }
    }
  }
}

TEST(LogitMath, ShiftedExpIsWithinTwoUlpOnEveryInstructionSet) {
  std::array<float, kLogitChunk> x;
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = 9.25F - 0.37F * static_cast<float>(i);
  x[5] = -std::numeric_limits<float>::infinity();
  x[6] = -3.4e38F;
  for (const std::string& target : cpu_simd_targets()) {
    const ForcedSimdTarget forced(target);
    for (const double divisor : {1.0, 0.7, 1e30}) {
      std::array<double, kLogitChunk> weight;
      const double shift = 9.25 / divisor;
      shifted_exp(x, divisor, shift, weight);
      for (std::size_t i = 0; i < x.size(); ++i) {
        const double exact = std::exp(static_cast<double>(x[i]) / divisor - shift);
        const double ulp = std::numeric_limits<double>::epsilon() * exact;
        ASSERT_NEAR(weight[i], exact, 2 * ulp) << target << " " << x[i];
      }
      EXPECT_EQ(weight[5], 0);
    }
  }
}

}  // namespace
}  // namespace shardlm
