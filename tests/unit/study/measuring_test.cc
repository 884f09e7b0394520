// When measuring stops, and what is said of the samples.
#include "study/measuring.h"

#include <gtest/gtest.h>

#include <numeric>

namespace shardlm {
namespace {

std::vector<double> one_to(int n) {
  std::vector<double> values(static_cast<std::size_t>(n));
  std::iota(values.begin(), values.end(), 1.0);
  return values;
}

TEST(MedianInterval, IsOfOrderStatistics) {
  // n/2 ± 0.98 sqrt(n): of 100 values those at 40.2 and 59.8, rounded outwards, from 0.
  EXPECT_EQ(median_interval(one_to(100)), (std::pair<double, double>{41, 61}));
  EXPECT_EQ(median_interval(one_to(6)), (std::pair<double, double>{1, 6}));
  EXPECT_EQ(median_interval(one_to(1)), (std::pair<double, double>{1, 1}));
}

TEST(MedianEstimate, HasAnIntervalFromSixValuesOn) {
  const MedianEstimate five = estimate_median({5, 1, 4, 2, 3});
  EXPECT_EQ(five.median, 3);
  EXPECT_EQ(five.least, 1);
  EXPECT_EQ(five.most, 5);
  EXPECT_FALSE(five.low || five.high || five.relative_width());
  const MedianEstimate six = estimate_median({6, 5, 1, 4, 2, 3});
  EXPECT_EQ(six.median, 3.5);
  EXPECT_EQ(*six.low, 1);
  EXPECT_EQ(*six.high, 6);
  EXPECT_DOUBLE_EQ(*six.relative_width(), 5 / 3.5);
}

TEST(StopRule, StopsForEachOfItsReasons) {
  const StopRule rule{.least = 3, .most = 50, .max_seconds = 10, .width = 0.02};
  const std::vector<double> steady(6, 2.0), apart = one_to(8);
  EXPECT_EQ(rule.stop(steady, 0), Stopped::precise);
  EXPECT_EQ(rule.stop(apart, 0), std::nullopt);
  EXPECT_EQ(rule.stop(apart, 10), Stopped::time);
  EXPECT_EQ(rule.stop(one_to(50), 0), Stopped::most);
  EXPECT_EQ(rule.stop({1, 1}, 100), std::nullopt);     // below the least
  EXPECT_EQ(rule.stop({1, 1, 1}, 0), std::nullopt);    // too few to say
  EXPECT_EQ(rule.stop({1, 1, 1}, 10), Stopped::time);  // but it took too long
  EXPECT_EQ((StopRule{.least = 3, .most = 3}).stop({1, 2, 3}, 0), Stopped::most);
  EXPECT_EQ((StopRule{.least = 5, .most = 3}).stop(one_to(4), 99), std::nullopt);
}

TEST(StopRule, HasNames) {
  EXPECT_EQ(name(Stopped::precise), "precise");
  EXPECT_EQ(name(Stopped::most), "most");
  EXPECT_EQ(name(Stopped::time), "time");
}

TEST(WarmupRule, WaitsForThreeThatAgree) {
  const WarmupRule rule{.least = 2, .most = 6, .max_seconds = 2, .width = 0.02};
  const auto warm = [&](std::vector<double> values, double s) { return rule.warm(values, s); };
  EXPECT_FALSE(warm({1}, 0));
  EXPECT_FALSE(warm({1, 1}, 0));
  EXPECT_TRUE(warm({1, 1}, 2));
  EXPECT_FALSE(warm({1, 1}, 1.9));
  EXPECT_TRUE(warm({9, 1, 1.01, 1}, 0));
  EXPECT_FALSE(warm({9, 1, 1.03, 1}, 0));
  EXPECT_TRUE(warm({9, 8, 7, 6, 5, 4}, 0));
  EXPECT_FALSE(warm({1}, 100));  // at least so many
  EXPECT_TRUE((WarmupRule{.least = 0}).warm({}, 0));
}

}  // namespace
}  // namespace shardlm
