#include "base/philox.h"

#include <gtest/gtest.h>

#include <cmath>

namespace shardlm {
namespace {

using Words4 = std::array<std::uint32_t, 4>;

// The known-answer vectors that Random123 publishes (kat_vectors, philox4x32 10).
TEST(Philox, KnownAnswers) {
  EXPECT_EQ(philox4x32_10({0, 0, 0, 0}, {0, 0}),
            (Words4{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  constexpr std::uint32_t kOnes = 0xffffffff;
  EXPECT_EQ(philox4x32_10({kOnes, kOnes, kOnes, kOnes}, {kOnes, kOnes}),
            (Words4{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(
      philox4x32_10({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
      (Words4{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

// The key of zeros and the ids 0 and 1 are the first vector above.
TEST(Uniform, IsMadeOfTheUpper52BitsOfTwoWords) {
  const NoiseKey zero{};
  const auto from = [](std::uint64_t high, std::uint64_t low) {
    return static_cast<double>((high << 20) | (low >> 12)) / 0x1p52 + 0x1p-53;
  };
  EXPECT_EQ(uniform(zero, 0), from(0xe169c58d, 0x6627e8d5));
  EXPECT_EQ(uniform(zero, 1), from(0x9b00dbd8, 0xbc57ac4c));
}

TEST(Uniform, EveryPartOfTheKeyMatters) {
  const NoiseKey base{.seed = 5, .sequence = 6, .position = 7};
  const double u = uniform(base, 8);
  EXPECT_NE(u, uniform({5, 6, 7}, 9));
  EXPECT_NE(u, uniform({5, 6, 8}, 8));
  EXPECT_NE(u, uniform({5, 7, 7}, 8));
  EXPECT_NE(u, uniform({6, 6, 7}, 8));
  EXPECT_NE(u, uniform({5 + (1ULL << 32), 6, 7}, 8));
  EXPECT_NE(u, uniform({5, 6 + (1ULL << 32), 7}, 8));
  EXPECT_EQ(u, uniform(base, 8));
}

TEST(Uniform, MeanAndVarianceAreThoseOfTheUniformDistribution) {
  constexpr int kDraws = 100000;
  double sum = 0, squares = 0;
  for (int id = 0; id < kDraws; ++id) {
    const double u = uniform({.seed = 1}, id);
    ASSERT_GT(u, 0.0);
    ASSERT_LT(u, 1.0);
    sum += u;
    squares += u * u;
  }
  const double mean = sum / kDraws;
  EXPECT_NEAR(mean, 0.5, 4 * std::sqrt(1.0 / 12 / kDraws));  // four standard errors
  EXPECT_NEAR(squares / kDraws - mean * mean, 1.0 / 12, 4 * std::sqrt(1.0 / 180 / kDraws));
}

TEST(Gumbel, IsFiniteAtBothEnds) {
  EXPECT_NEAR(gumbel(0x1p-53), -std::log(53 * std::log(2.0)), 1e-14);
  EXPECT_NEAR(gumbel(1 - 0x1p-53), 53 * std::log(2.0), 1e-12);
  EXPECT_NEAR(gumbel(std::exp(-1.0)), 0.0, 1e-15);
}

}  // namespace
}  // namespace shardlm
