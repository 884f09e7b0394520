#include "comm/background.h"

#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "comm/wait.h"

namespace shardlm {
namespace {

struct Kind {
  const char* name;
  std::unique_ptr<Background> (*make)();
};

class Backgrounds : public testing::TestWithParam<Kind> {
 protected:
  std::unique_ptr<Background> background_ = GetParam().make();
  Waiter waiter_{true};
};

TEST_P(Backgrounds, WorksRunInOrder) {
  std::vector<int> order;
  for (int i = 0; i < 3; ++i) background_->start([&order, i] { order.push_back(i); });
  for (int i = 0; i < 3; ++i) background_->wait();
  EXPECT_EQ(order, (std::vector{0, 1, 2}));
}

TEST_P(Backgrounds, AWorkThatWaitsGoesOnLater) {
  std::atomic<bool> go = false, seen = false;
  background_->start([&] {
    wait_until([&] { return go.load(); }, waiter_, 0);
    seen = true;
  });
  background_->poll();
  EXPECT_FALSE(seen);
  go = true;
  background_->wait();
  EXPECT_TRUE(seen);
}

TEST_P(Backgrounds, TwoMayBeUnderWayAndAreAwaitedOneByOne) {
  std::atomic<int> stage = 0;
  const auto until = [&](int n) {
    return [&stage, this, n] { wait_until([&stage, n] { return stage >= n; }, waiter_, 0); };
  };
  background_->start(until(1));
  background_->start(until(2));
  stage = 1;
  background_->wait();
  background_->start(until(3));
  stage = 3;
  background_->wait();
  background_->wait();
}

TEST_P(Backgrounds, WhatAWorkThrowsIsRethrown) {
  background_->start([] { throw std::runtime_error("no rank 3"); });
  background_->start([] {});
  try {
    background_->wait();
    FAIL() << "nothing was thrown";
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "no rank 3");
  }
  background_->wait();
}

TEST_P(Backgrounds, DeadlinesHold) {
  bool came = true;
  background_->start([&] { came = wait_until([] { return false; }, waiter_, 0.01); });
  background_->wait();
  EXPECT_FALSE(came);
}

TEST_P(Backgrounds, AWorkThatIsNotAwaitedIsGivenUp) {
  bool cleaned = false;
  struct Cleaner {
    bool& cleaned;
    ~Cleaner() { cleaned = true; }
  };
  std::atomic<bool> inside = false;
  background_->start([&] {
    const Cleaner cleaner{cleaned};
    inside = true;
    wait_until([] { return false; }, waiter_, 0);  // for ever
  });
  while (!inside) std::this_thread::yield();
  background_.reset();
  EXPECT_TRUE(cleaned);
}

INSTANTIATE_TEST_SUITE_P(Both, Backgrounds,
                         testing::Values(Kind{"thread", make_background_thread},
                                         Kind{"fiber", make_background_fiber}),
                         [](const auto& kind) { return std::string(kind.param.name); });

TEST(BackgroundFiber, ComputesInTurns) {
  const auto fiber = make_background_fiber();
  Waiter waiter(true);
  int looked = 0;
  fiber->start([&] { wait_until([&] { return ++looked > 3; }, waiter, 0); });
  const int before = looked;
  fiber->poll();
  EXPECT_EQ(looked, before + 1) << "one look a poll";
  fiber->wait();
  EXPECT_EQ(looked, 4);
}

}  // namespace
}  // namespace shardlm
