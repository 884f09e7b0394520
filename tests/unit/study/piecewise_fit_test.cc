#include "study/piecewise_fit.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/philox.h"
#include "study/ping_pong.h"

namespace shardlm {
namespace {

struct Piece {
  std::uint64_t to_bytes;
  double alpha, beta;
};

// Half octaves to 4 MiB, by the pieces, each time wrong by up to `noise` of it.
std::vector<TimedMessage> made(const std::vector<Piece>& pieces, double noise,
                               std::uint32_t seed = 0) {
  std::vector<TimedMessage> times;
  for (const std::size_t bytes : ping_pong_sizes()) {
    std::size_t i = 0;
    while (i + 1 < pieces.size() && bytes > pieces[i].to_bytes) ++i;
    const auto words = philox4x32_10({static_cast<std::uint32_t>(bytes), seed, 0, 0}, {});
    const double wrong = 1 + noise * (2 * (words[0] * 0x1p-32) - 1);
    times.push_back(
        {bytes, wrong * (pieces[i].alpha + pieces[i].beta * static_cast<double>(bytes))});
  }
  return times;
}

double model(const PiecewiseFit& fit, double bytes) {
  LinkClass link;
  link.segments = fit.segments;
  return link.message_s(bytes);
}

// Noise of 2 % makes a border too many in one of fifty: 300 draws of each kind were counted.
constexpr std::uint32_t kDraws = 40;
constexpr int kRight = 37;

TEST(PiecewiseFit, FindsOneLine) {
  int right = 0;
  for (std::uint32_t seed = 0; seed < kDraws; ++seed) {
    const PiecewiseFit fit = fit_piecewise(made({{1U << 30, 25e-6, 0.8e-9}}, 0.02, seed));
    EXPECT_NEAR(model(fit, 0), 25e-6, 0.02 * 25e-6);
    EXPECT_NEAR(model(fit, 3e6), 25e-6 + 0.8e-9 * 3e6, 0.02 * 0.8e-9 * 3e6);
    EXPECT_EQ(fit.segments.front().from_bytes, 0U);
    EXPECT_EQ(fit.segments.back().to_bytes, std::size_t{4} << 20);
    EXPECT_LT(fit.error, 0.02);
    right += fit.segments.size() == 1;
  }
  EXPECT_GE(right, kRight);
}

TEST(PiecewiseFit, FindsTheBorderOfTwo) {
  int right = 0;
  for (std::uint32_t seed = 0; seed < kDraws; ++seed) {
    const PiecewiseFit fit =
        fit_piecewise(made({{8192, 1e-6, 0.3e-9}, {1U << 30, 9e-6, 0.3e-9}}, 0.02, seed));
    ASSERT_GE(fit.segments.size(), 2U) << seed;
    if (fit.segments.size() != 2) continue;
    ++right;
    EXPECT_EQ(fit.segments[0].to_bytes, 8192U);
    EXPECT_EQ(fit.segments[1].from_bytes, 8192U);
    EXPECT_NEAR(fit.segments[0].alpha_s, 1e-6, 0.05e-6);
    EXPECT_NEAR(fit.segments[1].alpha_s, 9e-6, 0.5e-6);
    EXPECT_NEAR(fit.segments[1].beta_s_per_byte, 0.3e-9, 0.01e-9);
  }
  EXPECT_GE(right, kRight);
}

TEST(PiecewiseFit, FindsTheBordersOfThree) {
  const std::vector<Piece> three = {
      {8192, 1e-6, 0.3e-9}, {262144, 4e-6, 0.1e-9}, {1U << 30, 0, 0.25e-9}};
  for (std::uint32_t seed = 0; seed < kDraws; ++seed) {
    const PiecewiseFit fit = fit_piecewise(made(three, 0.01, seed));
    ASSERT_EQ(fit.segments.size(), 3U) << seed;
    for (std::size_t i = 0; i < 3; ++i) {
      const auto middle = static_cast<double>(i == 0 ? 1024 : i == 1 ? 65536 : 2 << 20);
      EXPECT_NEAR(model(fit, middle) / (three[i].alpha + three[i].beta * middle), 1, 0.02) << i;
    }
    EXPECT_EQ(fit.segments[0].to_bytes, 8192U);
  }
}

TEST(PiecewiseFit, HasNoNegativeCosts) {
  const PiecewiseFit falling = fit_piecewise(std::vector<TimedMessage>{{0, 3e-6}, {1 << 20, 1e-6}});
  ASSERT_EQ(falling.segments.size(), 1U);
  EXPECT_EQ(falling.segments[0].beta_s_per_byte, 0);
  EXPECT_GT(falling.segments[0].alpha_s, 0);
  const PiecewiseFit steep =
      fit_piecewise(std::vector<TimedMessage>{{1000, 1e-6}, {2000, 3e-6}, {3000, 6e-6}});
  EXPECT_EQ(steep.segments[0].alpha_s, 0);
}

TEST(PiecewiseFit, OfLittle) {
  EXPECT_TRUE(fit_piecewise({}).segments.empty());
  const PiecewiseFit one = fit_piecewise(std::vector<TimedMessage>{{64, 2e-6}});
  ASSERT_EQ(one.segments.size(), 1U);
  EXPECT_NEAR(one.segments[0].alpha_s, 2e-6, 1e-12);
}

}  // namespace
}  // namespace shardlm
