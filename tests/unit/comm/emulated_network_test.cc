#include "comm/emulated_network.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "backend/cpu/cpu_backend.h"
#include "base/error.h"
#include "comm/message_meetings.h"
#include "comm/message_reducer.h"
#include "tests/support/thread_messages.h"
#include "tests/support/thread_ranks.h"

namespace shardlm {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

// Time that passes only when someone waits.
class FakeClock final : public NetworkClock {
 public:
  std::int64_t now_ns() override { return now; }
  void wait_until_ns(std::int64_t time) override { now = std::max(now, time); }
  std::int64_t now = 0;
};

constexpr Call sum_call(std::uint64_t number) {
  return {Op::all_reduce, {SiteKind::attn_out, 0}, number};
}

// ---- the model ----

TEST(Emulation, AnExchangeTakesItsRoundsAndItsBytes) {
  // 2 rounds of 100 us; 3072 bytes are 24576 bits: 24.576 us at 1 Gbit/s, 2.4576 at 10.
  EXPECT_EQ(network_ns({.latency_us = 100}, {2, 3072}, 1, 0), 200'000);
  EXPECT_EQ(network_ns({.latency_us = 100, .gbit_per_s = 1}, {2, 3072}, 1, 0), 224'576);
  EXPECT_EQ(network_ns({.gbit_per_s = 10}, {2, 3072}, 1, 0), 2'458);
  EXPECT_EQ(network_ns({}, {2, 3072}, 1, 0), 0);
}

TEST(Emulation, JitterIsDrawnForEachExchangeAndRepeats) {
  const Emulation e{.latency_us = 10, .jitter_us = 5, .seed = 7};
  std::set<std::int64_t> times;
  double sum = 0;
  constexpr int kCalls = 2000;
  for (int i = 0; i < kCalls; ++i) {
    const auto call = static_cast<std::uint64_t>(i);
    const std::int64_t ns = network_ns(e, {1, 0}, call, 0);
    EXPECT_EQ(ns, network_ns(e, {1, 0}, call, 0));
    EXPECT_GE(ns, 10'000);
    EXPECT_LE(ns, 15'000);
    times.insert(ns);
    sum += static_cast<double>(ns);
  }
  EXPECT_GT(times.size(), 1200U);  // of 5001 values, 2000 draws hit about 1650 different ones
  // The mean of n even draws from [0, 5 us) lies within 5 standard deviations of 2.5 us.
  EXPECT_NEAR(sum / kCalls, 12'500, 5 * 5'000 / std::sqrt(12.0 * kCalls));
  EXPECT_NE(network_ns(e, {1, 0}, 3, 0), network_ns(e, {1, 0}, 3, 1));
  EXPECT_NE(network_ns(e, {1, 0}, 3, 0),
            network_ns({.latency_us = 10, .jitter_us = 5, .seed = 8}, {1, 0}, 3, 0));
}

TEST(Emulation, IsReadAndWritten) {
  const std::string text = "latency_us=100,gbit=2.5,jitter_us=5,slow_rank=2,slow_us=300,seed=7";
  const Emulation e = parse_emulation(text);
  EXPECT_EQ(e, (Emulation{100, 2.5, 5, 2, 300, 7}));
  EXPECT_EQ(emulation_text(e), text);
  EXPECT_EQ(parse_emulation("gbit=1").gbit_per_s, 1);
  EXPECT_EQ(emulation_text(parse_emulation("slow_us=0.5,slow_rank=0")), "slow_rank=0,slow_us=0.5");
}

TEST(Emulation, BadTextIsRefused) {
  const struct {
    const char* text;
    const char* expected;
  } cases[] = {{"", "NAME=VALUE"},
               {"latency_us", "NAME=VALUE"},
               {"latency_us=1,", "NAME=VALUE"},
               {"latency_us=", "latency_us from 0 to 1e+09"},
               {"latency_us=-1", "latency_us from 0"},
               {"latency_us=nan", "latency_us from 0"},
               {"latency_us=inf", "latency_us from 0"},
               {"latency_us=2x", "found '2x'"},
               {"latency=2", "latency_us, gbit, jitter_us"},
               {"gbit=1,gbit=1", "each name once"},
               {"slow_rank=1", "slow_rank and slow_us together"},
               {"slow_us=1", "slow_rank and slow_us together"},
               {"slow_rank=-1,slow_us=1", "a rank's number from 0"},
               {"slow_rank=1.5,slow_us=1", "a rank's number from 0"},
               {"jitter_us=1,seed=-1", "a whole number from 0"},
               {"latency_us=1,seed=1", "a seed only with jitter_us"}};
  for (const auto& c : cases) {
    EXPECT_THAT([&] { parse_emulation(c.text); }, ThrowsMessage<Error>(HasSubstr(c.expected)))
        << c.text;
  }
}

// ---- the collectives ----

// Ranks as threads with a clock each, which stands still but for the emulated network.
TEST(EmulatedNetwork, SumsAreTheSameAndLastAsLongAsTheModelSays) {
  const Emulation e{.latency_us = 100, .gbit_per_s = 1};
  run_message_ranks(3, [&](int rank, Messages& messages) {
    const auto backend = make_cpu_backend(1);
    FakeClock clock;
    // The load is the caller's word: here one round, and the message twice.
    const auto reducer = emulate_network(
        make_message_reducer(messages, *backend, Algorithm::ring, WireFormat::f32), e,
        [](std::size_t bytes) {
          return NetworkLoad{1, 2.0 * static_cast<double>(bytes)};
        },
        clock);
    std::vector<float> mine(250, static_cast<float>(rank + 1));
    for (std::uint64_t call = 1; call <= 4; ++call) {
      const auto sum = reducer->reduce(sum_call(call), Tensor::borrow(mine.data(), 2, 125));
      ASSERT_EQ(sum.size(), 1U);
      EXPECT_EQ(sum[0].row(1)[124], 1 + 2 + 3);
      reducer->release();
      // 100 us, and 2000 bytes: 16 us.
      EXPECT_EQ(clock.now, static_cast<std::int64_t>(call) * 116'000);
    }
  });
}

TEST(EmulatedNetwork, PartsOfACallHaveJitterOfTheirOwn) {
  const Emulation e{.jitter_us = 50, .seed = 3};
  run_message_ranks(2, [&](int, Messages& messages) {
    const auto backend = make_cpu_backend(1);
    FakeClock clock;
    const auto reducer = emulate_network(
        make_message_reducer(messages, *backend, Algorithm::direct, WireFormat::f32), e,
        [](std::size_t) {
          return NetworkLoad{1, 0};
        },
        clock);
    std::vector<float> mine(4, 1.0F);
    std::int64_t expected = 0;
    for (const auto& [call, part] : {std::pair{5, 0}, {5, 1}, {5, 2}, {6, 0}}) {
      reducer->reduce(sum_call(static_cast<std::uint64_t>(call)),
                      Tensor::borrow(mine.data(), 1, 4));
      reducer->release();
      expected +=
          network_ns(e, {1, 0}, static_cast<std::uint64_t>(call), static_cast<std::uint32_t>(part));
      EXPECT_EQ(clock.now, expected);
    }
  });
}

TEST(EmulatedNetwork, MeetingsAreStars) {
  const Emulation e{.latency_us = 10, .gbit_per_s = 8};  // a byte a nanosecond
  run_message_ranks(3, [&](int rank, Messages& messages) {
    FakeClock clock;
    const auto meetings = emulate_network(make_message_meetings(messages), e, rank, 3, clock);
    std::vector<std::byte> text(rank == 1 ? 500 : 0);
    meetings->broadcast({Op::broadcast, {SiteKind::step}, 1}, text, 1);
    EXPECT_EQ(text.size(), 500U);
    EXPECT_EQ(clock.now, rank == 1 ? 1'000 : 11'000);  // twice 500 bytes leave the root

    clock.now = 0;
    const std::vector<std::byte> mine(static_cast<std::size_t>(100 * (rank + 1)));
    std::vector<std::vector<std::byte>> all;
    meetings->gather({Op::gather, {SiteKind::lm_head}, 2}, mine, all, 0);
    const std::int64_t at_ends[] = {10'500, 200, 300};  // the root receives 200 + 300
    EXPECT_EQ(clock.now, at_ends[rank]);

    clock.now = 0;
    meetings->barrier({Op::barrier, {SiteKind::step}, 3});
    EXPECT_EQ(clock.now, 10'000);
  });
}

TEST(EmulatedNetwork, ASlowRankComesLateToAllReducesAlone) {
  run_ranks(3, [](int rank, Communicator& comm, Backend&) {
    FakeClock clock;
    const auto slow = emulate_slow_rank(comm, {.slow_rank = 1, .slow_us = 300}, clock);
    std::vector<float> addend(4, 1.0F), stream(4, 0.0F);
    Tensor residual = Tensor::borrow(stream.data(), 1, 4);
    for (int i = 0; i < 2; ++i) {
      slow->all_reduce({SiteKind::embed}, Tensor::borrow(addend.data(), 1, 4),
                       {.residual = &residual});
    }
    slow->barrier({SiteKind::step});
    EXPECT_EQ(stream[3], 6);
    EXPECT_EQ(clock.now, rank == 1 ? 600'000 : 0);
  });
}

TEST(EmulatedNetwork, TheMachinesClockWaits) {
  for (const bool oversubscribed : {false, true}) {
    const auto clock = make_network_clock(oversubscribed);
    const std::int64_t due = clock->now_ns() + 200'000;
    clock->wait_until_ns(due);
    EXPECT_GE(clock->now_ns(), due);
  }
}

}  // namespace
}  // namespace shardlm
