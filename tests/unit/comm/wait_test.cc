#include "comm/wait.h"

#include <gtest/gtest.h>
#include <time.h>

#include <atomic>
#include <thread>

namespace shardlm {
namespace {

double seconds_of(clockid_t clock) {
  timespec t{};
  clock_gettime(clock, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

TEST(Wait, AsksOnceForWhatIsThere) {
  Waiter waiter(true);
  int asked = 0;
  EXPECT_TRUE(wait_until([&] { return ++asked == 1; }, waiter, 1));
  EXPECT_EQ(asked, 1);
}

TEST(Wait, EndsAtTheDeadlineAndNotBefore) {
  for (const bool oversubscribed : {false, true}) {
    Waiter waiter(oversubscribed);
    const double start = seconds_of(CLOCK_MONOTONIC);
    EXPECT_FALSE(wait_until([] { return false; }, waiter, 0.02));
    const double waited = seconds_of(CLOCK_MONOTONIC) - start;
    EXPECT_GE(waited, 0.02);
    EXPECT_LT(waited, 5);
  }
}

TEST(Wait, LooksOnceMoreAfterTheDeadline) {
  Waiter waiter(true);
  int asked = 0;
  // True only when asked after the pause that found the deadline over.
  EXPECT_TRUE(wait_until([&] { return ++asked >= 2; }, waiter, 1e-9));
}

TEST(Wait, NoLimitWaitsForAsLongAsItTakes) {
  Waiter waiter(false);
  for (const double none : {0.0, -1.0, 1e300}) {
    std::atomic<bool> ready = false;
    std::jthread other([&] { ready = true; });
    EXPECT_TRUE(wait_until([&] { return ready.load(); }, waiter, none));
  }
}

TEST(Wait, ShortenMovesTheDeadlineForwardOnly) {
  Waiter waiter(true);
  Backoff backoff(waiter, 0.01);
  backoff.shorten(100);
  const double start = seconds_of(CLOCK_MONOTONIC);
  while (backoff.pause()) {
  }
  EXPECT_LT(seconds_of(CLOCK_MONOTONIC) - start, 50);
  Backoff without_limit(waiter, 0);
  without_limit.shorten(0.001);
  while (without_limit.pause()) {
  }
}

TEST(Wait, AnIdleRankUsesLessThanFivePercentOfACore) {
  Waiter waiter(false);
  const double start = seconds_of(CLOCK_THREAD_CPUTIME_ID);
  constexpr double kSeconds = 2;  // the first spin, slow under a sanitizer, is a small part of it
  EXPECT_FALSE(wait_until([] { return false; }, waiter, kSeconds));
  const double used = seconds_of(CLOCK_THREAD_CPUTIME_ID) - start;
  EXPECT_LT(used, 0.05 * kSeconds);
}

}  // namespace
}  // namespace shardlm
