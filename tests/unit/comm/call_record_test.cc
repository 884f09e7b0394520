#include "comm/call_record.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <thread>
#include <vector>

#include "base/error.h"

namespace shardlm {
namespace {

TEST(RecordRing, KeepsTheLastAndCountsTheDropped) {
  RecordRing<int> ring(3);
  EXPECT_TRUE(ring.on());
  for (int i = 1; i <= 2; ++i) ring.add(i);
  EXPECT_EQ(ring.size(), 2U);
  EXPECT_EQ(ring.dropped(), 0U);
  EXPECT_EQ(ring[0], 1);
  EXPECT_EQ(ring[1], 2);
  for (int i = 3; i <= 8; ++i) ring.add(i);
  ASSERT_EQ(ring.size(), 3U);
  EXPECT_EQ(ring.dropped(), 5U);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(ring[i], static_cast<int>(i) + 6);
  ring.clear();
  EXPECT_EQ(ring.size(), 0U);
  ring.add(9);
  EXPECT_EQ(ring[0], 9);
}

TEST(RecordRing, IsOffWithoutCapacity) {
  RecordRing<int> off;
  off.add(1);
  EXPECT_FALSE(off.on());
  EXPECT_EQ(off.size(), 0U);
  EXPECT_EQ(off.dropped(), 0U);
}

TEST(RecordedCall, TellsAllOfACall) {
  CallLog log(4, 4);
  log.begin_step({7, Phase::prefill, 5});
  const std::int64_t before = ticks();
  RecordedCall recorded(log, {Op::gather, {SiteKind::attn_out, 3}, 12});
  recorded.set_root(2);
  recorded.all_entered();
  recorded.end("ring", DType::f32, 3072, 6144);
  const std::int64_t after = ticks();
  log.end_step();
  ASSERT_EQ(log.calls.size(), 1U);
  const CallRecord& r = log.calls[0];
  EXPECT_EQ(call_text(r.call), "gather at attn_out[3] (call 12)");
  EXPECT_EQ(r.step.number, 7U);
  EXPECT_EQ(r.step.phase, Phase::prefill);
  EXPECT_EQ(r.step.rows, 5);
  EXPECT_STREQ(r.algorithm, "ring");
  EXPECT_EQ(r.dtype, DType::f32);
  EXPECT_EQ(r.bytes, 3072U);
  EXPECT_EQ(r.wire_tx, 6144U);
  EXPECT_EQ(r.root, 2);
  EXPECT_LE(before, r.start);
  EXPECT_LE(0, r.wait);
  EXPECT_LE(r.wait, r.end - r.start);
  EXPECT_LE(r.end, after);
  ASSERT_EQ(log.steps.size(), 1U);
  EXPECT_EQ(log.steps[0].mark.number, 7U);
  EXPECT_LE(log.steps[0].start, r.start);
  EXPECT_LE(after, log.steps[0].end);
}

TEST(RecordedCall, ThatFailsLeavesNoRecord) {
  CallLog log(4);
  try {
    RecordedCall recorded(log, {Op::barrier, {}, 1});
    throw std::runtime_error("a peer is gone");
  } catch (const std::runtime_error&) {
  }
  EXPECT_EQ(log.calls.size(), 0U);
  CallLog off;
  RecordedCall unrecorded(off, {Op::barrier, {}, 1});
  unrecorded.all_entered();
  unrecorded.end("shm", DType::u8, 0, 0);
  EXPECT_EQ(off.calls.size(), 0U);
}

TEST(CallLog, PutsACallOfADeviceIntoTheStepInWhichItEnded) {
  CallLog log(8, 8);
  log.clock = TickClock::steady;
  std::vector<std::int64_t> began;
  for (std::uint64_t number = 1; number <= 3; ++number) {
    log.begin_step({number, Phase::decode, 1});
    began.push_back(log.now());
    const std::int64_t until = steady_ns() + 1000;
    while (steady_ns() < until) {
    }
    if (number < 3) log.end_step();
  }
  for (const std::int64_t at : began) log.add_by_time({.start = at - 500, .end = at + 1});
  log.add_by_time({.start = 1, .end = 2});  // before all: the first that is known
  ASSERT_EQ(log.calls.size(), 4U);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(log.calls[i].step.number, i + 1);
  EXPECT_EQ(log.calls[3].step.number, 1U);
}

TEST(TickScale, IsExactAtItsAnchorsAndLinear) {
  // 2.5 GHz: 0.4 ns a tick, over an hour, far from zero as a machine's counters are.
  const TickAnchor from{.ticks = 4'000'000'000'000'001, .steady_ns = 77'000'000'000'003};
  const TickAnchor to{.ticks = from.ticks + 9'000'000'000'000,
                      .steady_ns = from.steady_ns + 3'600'000'000'000};
  const TickScale scale(from, to);
  EXPECT_DOUBLE_EQ(scale.ns_per_tick(), 0.4);
  EXPECT_EQ(scale.ns(from.ticks), from.steady_ns);
  EXPECT_EQ(scale.ns(to.ticks), to.steady_ns);
  EXPECT_EQ(scale.ns(from.ticks + 25), from.steady_ns + 10);
  EXPECT_EQ(scale.ns(from.ticks - 25), from.steady_ns - 10);
  EXPECT_EQ(scale.ns(to.ticks + 5), to.steady_ns + 2);
  EXPECT_EQ(TickScale().ns(17), 17);
  EXPECT_THROW(TickScale(to, from), Error);
}

TEST(TickAnchor, FollowsTheSteadyClock) {
  const TickAnchor from = TickAnchor::now();
  const std::int64_t until = steady_ns() + 20'000'000;
  while (steady_ns() < until) {
  }
  const TickAnchor to = TickAnchor::now();
  const TickScale scale(from, to);
  const std::int64_t before = steady_ns();
  const std::int64_t read = scale.ns(ticks());
  const std::int64_t after = steady_ns();
  constexpr std::int64_t kSlack_ns = 100'000;  // an anchor may be torn by a stolen core
  EXPECT_LE(before - kSlack_ns, read);
  EXPECT_LE(read, after + kSlack_ns);
}

TEST(Ticks, DoNotRunBackwardsFromCoreToCore) {
  std::int64_t last = ticks();
  for (int i = 0; i < 20; ++i) {
    std::int64_t there = 0;
    std::thread([&there] { there = ticks(); }).join();
    EXPECT_LT(last, there);
    last = ticks();
    EXPECT_LT(there, last);
  }
}

}  // namespace
}  // namespace shardlm
