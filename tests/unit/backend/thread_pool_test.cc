#include "backend/cpu/thread_pool.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <chrono>
#include <ctime>
#include <set>
#include <stdexcept>
#include <string>

#include "base/error.h"

namespace shardlm {
namespace {

TEST(ThreadPool, EveryItemOnceWhateverTheNumbers) {
  for (const int size : {1, 2, 3, 8}) {  // 8: more than this test may count on
    ThreadPool threads(size);
    EXPECT_EQ(threads.size(), size);
    for (const std::int64_t n : {0, 1, 2, 7, 8, 9, 1000}) {
      std::vector<std::atomic<int>> visits(static_cast<std::size_t>(n));
      threads.parallel_for(n, 1, [&](std::int64_t begin, std::int64_t end, int worker) {
        EXPECT_GE(worker, 0);
        EXPECT_LT(worker, size);
        for (std::int64_t i = begin; i < end; ++i) ++visits[static_cast<std::size_t>(i)];
      });
      for (const auto& v : visits) EXPECT_EQ(v, 1);
    }
  }
}

TEST(ThreadPool, CutsIntoEqualPartsThatStayWithTheirWorker) {
  ThreadPool threads(3);
  std::vector<std::pair<std::int64_t, std::int64_t>> parts(3);
  threads.parallel_for(10, 1, [&](std::int64_t begin, std::int64_t end, int worker) {
    parts[static_cast<std::size_t>(worker)] = {begin, end};
  });
  using Parts = std::vector<std::pair<std::int64_t, std::int64_t>>;
  EXPECT_EQ(parts, (Parts{{0, 3}, {3, 6}, {6, 10}}));
}

TEST(ThreadPool, LittleWorkStaysWithTheCaller) {
  ThreadPool threads(4);
  std::set<int> workers;
  threads.parallel_for(19, 10, [&](std::int64_t begin, std::int64_t end, int worker) {
    EXPECT_EQ(end - begin, 19);
    workers.insert(worker);
  });
  EXPECT_EQ(workers, std::set<int>{0});
}

TEST(ThreadPool, ManyShortJobsInARow) {
  ThreadPool threads(3);
  std::int64_t sums[3] = {};
  for (int job = 0; job < 500; ++job) {
    threads.parallel_for(3, 1, [&](std::int64_t begin, std::int64_t, int) { ++sums[begin]; });
  }
  for (const std::int64_t sum : sums) EXPECT_EQ(sum, 500);
}

TEST(ThreadPool, WhatAPartThrowsReachesTheCaller) {
  for (const int size : {1, 2, 4}) {
    ThreadPool threads(size);
    for (std::int64_t bad = 0; bad < 4; ++bad) {
      try {
        threads.parallel_for(4, 1, [&](std::int64_t begin, std::int64_t end, int) {
          if (begin <= bad && bad < end) throw std::runtime_error(std::to_string(bad));
        });
        ADD_FAILURE() << "nothing thrown";
      } catch (const std::runtime_error& error) {
        EXPECT_EQ(error.what(), std::to_string(bad));
      }
      std::atomic<int> visits = 0;  // and the team is well
      threads.parallel_for(4, 1, [&](std::int64_t begin, std::int64_t end, int) {
        visits += static_cast<int>(end - begin);
      });
      EXPECT_EQ(visits, 4);
    }
  }
}

TEST(ThreadPool, ACallerOutwaitsASlowWorker) {
  ThreadPool threads(2);
  bool done = false;
  threads.parallel_for(2, 1, [&](std::int64_t begin, std::int64_t, int) {
    if (begin == 0) return;
    // Work of 20 ms: longer than the caller spins.
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(20);
    while (std::chrono::steady_clock::now() < end) {
    }
    done = true;
  });
  EXPECT_TRUE(done);
}

TEST(ThreadPool, IdleWorkersUseNoCpu) {
  ThreadPool threads(4);
  threads.parallel_for(4, 1, [](std::int64_t, std::int64_t, int) {});
  const std::clock_t before = std::clock();
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  // Three spinning workers would use 100 ms at least.
  EXPECT_LT(static_cast<double>(std::clock() - before) / CLOCKS_PER_SEC, 0.05);
}

TEST(ThreadPool, CountsTheRegionsThatWokeWorkers) {
  ThreadPool threads(2);
  const auto nothing = [](std::int64_t, std::int64_t, int) {};
  EXPECT_EQ(threads.runs(), 0U);
  threads.parallel_for(0, 1, nothing);
  threads.parallel_for(3, 2, nothing);  // too little for two
  EXPECT_EQ(threads.runs(), 0U);
  threads.parallel_for(2, 1, nothing);
  threads.parallel_for(9, 1, nothing);
  EXPECT_EQ(threads.runs(), 2U);
}

TEST(ThreadPool, TeamsOfEverySizeWorkInsideASetOfOneCore) {
  cpu_set_t before, one;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  CPU_ZERO(&one);
  CPU_SET(static_cast<unsigned>(sched_getcpu()), &one);
  if (sched_setaffinity(0, sizeof one, &one) != 0) GTEST_SKIP() << "may not be bound here";
  for (const int size : {1, 2, 3}) {
    ThreadPool threads(size);
    std::atomic<int> parts = 0;
    for (int job = 0; job < 20; ++job) {
      threads.parallel_for(size, 1, [&](std::int64_t, std::int64_t, int) { ++parts; });
    }
    EXPECT_EQ(parts, 20 * size);
  }
  sched_setaffinity(0, sizeof before, &before);
}

TEST(ThreadPool, AFullTeamLeavesTheCallerWhereItWas) {
  cpu_set_t before, after;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  { ThreadPool threads(CPU_COUNT(&before)); }
  ASSERT_EQ(sched_getaffinity(0, sizeof after, &after), 0);
  EXPECT_TRUE(CPU_EQUAL(&before, &after));
}

TEST(ThreadPool, AFullTeamHasACoreAWorker) {
  cpu_set_t allowed;
  ASSERT_EQ(sched_getaffinity(0, sizeof allowed, &allowed), 0);
  const int cores = CPU_COUNT(&allowed);
  if (cores < 2) GTEST_SKIP() << "one core";
  ThreadPool threads(cores);
  std::vector<cpu_set_t> sets(static_cast<std::size_t>(cores));
  threads.parallel_for(cores, 1, [&](std::int64_t begin, std::int64_t, int) {
    cpu_set_t& set = sets[static_cast<std::size_t>(begin)];
    sched_getaffinity(0, sizeof set, &set);
  });
  cpu_set_t seen;
  CPU_ZERO(&seen);
  for (std::size_t worker = 1; worker < sets.size(); ++worker) {
    EXPECT_EQ(CPU_COUNT(&sets[worker]), 1);
    CPU_OR(&seen, &seen, &sets[worker]);
  }
  EXPECT_EQ(CPU_COUNT(&seen), cores - 1) << "no two workers share a core";
  EXPECT_EQ(CPU_COUNT(&sets[0]), cores) << "the caller";
}

TEST(ThreadPool, NeedsAThread) { EXPECT_THROW(ThreadPool(0), Error); }

}  // namespace
}  // namespace shardlm
