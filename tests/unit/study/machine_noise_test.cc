// The canary and the timer. Nothing here holds the machine to a time.
#include "study/machine_noise.h"

#include <gtest/gtest.h>

namespace shardlm {
namespace {

TEST(Canary, ComparesTheSlowWithTheMedian) {
  std::vector<double> quiet(2000, 5.0), noisy = quiet;
  for (std::size_t i = 0; i < 40; ++i) noisy[i * 50] = 20;
  EXPECT_EQ(canary_of(quiet).ratio(), 1);
  EXPECT_EQ(canary_of(noisy).p50_us, 5);
  EXPECT_EQ(canary_of(noisy).ratio(), 4);
  EXPECT_EQ(Canary{}.ratio(), 1);
}

TEST(Canary, TakesSomeTime) {
  const Canary canary = run_canary(100);
  EXPECT_GT(canary.p50_us, 0);
  EXPECT_GE(canary.p99_us, canary.p50_us);
}

TEST(Timer, HasACostAndAResolution) {
  const TimerFacts timer = measure_timer();
  EXPECT_FALSE(timer.name.empty());
  EXPECT_GE(timer.cost_ns, 0);
  EXPECT_GT(timer.resolution_ns, 0);
}

}  // namespace
}  // namespace shardlm
