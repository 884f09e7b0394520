#include "study/ping_pong.h"

#include <gtest/gtest.h>

#include "comm/communicator.h"
#include "study/compute_facts.h"
#include "tests/support/thread_messages.h"
#include "tests/support/thread_ranks.h"
#include "tests/support/thread_shm.h"

namespace shardlm {
namespace {

TEST(PingPong, GoesThroughHalfOctaves) {
  const auto sizes = ping_pong_sizes(1 << 20);
  EXPECT_EQ(sizes.front(), 0U);
  EXPECT_EQ(sizes.back(), 1U << 20);
  for (std::size_t i = 4; i + 2 < sizes.size(); ++i) {
    EXPECT_NEAR(static_cast<double>(sizes[i + 2]), 2.0 * static_cast<double>(sizes[i]), 4);
  }
  for (std::size_t i = 1; i < sizes.size(); ++i) EXPECT_GT(sizes[i], sizes[i - 1]);
}

void check(const std::vector<SizeTimes>& times, std::span<const std::size_t> sizes) {
  ASSERT_EQ(times.size(), sizes.size());
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    EXPECT_EQ(times[i].bytes, sizes[i]);
    EXPECT_GE(times[i].seconds.size(), 9U);
    for (const double s : times[i].seconds) EXPECT_GT(s, 0);
  }
}

TEST(PingPong, OverMessagesTimesEverySize) {
  const std::vector<std::size_t> sizes = {0, 8, 3072, 20000};
  run_message_ranks(3, [&](int rank, Messages& messages) {
    if (rank == 1) return;  // has no part in it
    const auto path = make_message_path(messages, 2 - rank);
    const auto times = ping_pong(*path, rank == 0, sizes, 0.01);
    if (rank == 0) check(times, sizes);
  });
}

TEST(PingPong, OverSharedMemoryTimesEverySize) {
  const std::vector<std::size_t> sizes = {0, 8, 3072, 4096};
  run_team(2, [&](ShmTeam& team) {
    const auto path = make_memory_path(team);
    EXPECT_EQ(path->most_bytes(), 4096U);
    const auto times = ping_pong(*path, team.rank() == 0, sizes, 0.01);
    if (team.rank() == 0) check(times, sizes);
  });
}

TEST(PingPong, BytesArrive) {
  run_team(2, [](ShmTeam& team) {
    const auto path = make_memory_path(team);
    std::vector<std::byte> bytes(1000);
    for (int turn = 0; turn < 5; ++turn) {
      if (team.rank() == turn % 2) {
        bytes.assign(1000, static_cast<std::byte>(turn + 1));
        path->send(bytes);
      } else {
        path->receive(bytes);
      }
      EXPECT_EQ(bytes, std::vector(1000, static_cast<std::byte>(turn + 1)));
    }
  });
}

/// Time that passes only where somebody waits.
class StillClock final : public NetworkClock {
 public:
  std::int64_t now_ns() override { return now_; }
  void wait_until_ns(std::int64_t time) override { now_ = time; }

 private:
  std::int64_t now_ = 0;
};

TEST(PingPong, OverAnEmulatedNetworkIsLateByARound) {
  run_team(2, [](ShmTeam& team) {
    StillClock clock;
    Emulation emulation;
    emulation.latency_us = 100;
    emulation.gbit_per_s = 1;
    const auto path = make_emulated_path(make_memory_path(team), emulation, clock);
    std::vector<std::byte> bytes(1000);
    if (team.rank() == 0) return path->send(bytes);
    path->receive(bytes);
    EXPECT_EQ(clock.now_ns(), 108'000);
  });
}

TEST(PingPong, PostingAndPhasesAreTimed) {
  run_message_ranks(3, [](int rank, Messages& messages) {
    const std::vector<int> peers = {1, 2};
    const double o = posting_s(messages, 0, peers);
    EXPECT_GE(o, 0);
    if (rank != 0) {
      EXPECT_EQ(o, 0);
    }
  });
  run_message_ranks(2, [](int, Messages& messages) {
    const std::vector<int> peers = {1};
    EXPECT_GE(posting_s(messages, 0, peers), 0);
  });
  run_team(2, [](ShmTeam& team) { EXPECT_GT(phase_s(team), 0); });
}

TEST(Gamma, IsMeasuredBySize) {
  const auto gamma = measure_gamma();
  ASSERT_GE(gamma.size(), 3U);
  for (std::size_t i = 0; i < gamma.size(); ++i) {
    EXPECT_GT(gamma[i].s_per_byte, 0);
    if (i > 0) {
      EXPECT_GT(gamma[i].to_bytes, gamma[i - 1].to_bytes);
    }
  }
}

TEST(ComputeFacts, AreOfOneRankAndOfAll) {
  run_ranks(2, [](int rank, Communicator& comm, Backend& backend) {
    const ComputeFacts facts =
        measure_compute(comm, backend, 1, 2, {.seconds = 0.01, .most_bytes = 1 << 20});
    const double seconds = meetings_s(comm);
    if (rank != 0) return;
    EXPECT_GT(seconds, 0);
    EXPECT_EQ(facts.ranks_at_once, 2);
    EXPECT_GT(facts.op_s, 0);
    EXPECT_GT(facts.norm_row_s + facts.norm_s_per_element, 0);
    EXPECT_EQ(facts.read.size(), 1U);
    EXPECT_EQ(facts.matmul.size(), 3U);
    for (const MatmulRate& m : facts.matmul) {
      EXPECT_GT(m.alone_gflop_per_s, 0);
      EXPECT_GT(m.all_gflop_per_s, 0);
    }
  });
}

}  // namespace
}  // namespace shardlm
