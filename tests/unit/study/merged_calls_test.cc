#include "study/merged_calls.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "tests/support/thread_ranks.h"
#include "tests/unit/study/made_up.h"

namespace shardlm {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr Site kAttention{SiteKind::attn_out, 0}, kMlp{SiteKind::mlp_out, 0};
constexpr Site kPlan{SiteKind::step}, kHead{SiteKind::lm_head};

std::vector<std::int64_t> waits(const MergedRun& run, std::size_t call) {
  std::vector<std::int64_t> ns;
  for (const RankPart& part : run.parts_of(call)) ns.push_back(part.wait);
  return ns;
}
std::vector<std::int64_t> transfers(const MergedRun& run, std::size_t call) {
  std::vector<std::int64_t> ns;
  for (const RankPart& part : run.parts_of(call)) ns.push_back(part.transfer());
  return ns;
}

TEST(MergedCalls, SplitASumAtTheLastEntry) {
  // Last entry 150 (rank 1), first 100, last exit 190.
  const MergedRun run = MadeUp(3).sum(kMlp, 8, {{100, 180}, {150, 190}, {120, 170}}).merge();
  ASSERT_EQ(run.calls.size(), 1U);
  EXPECT_EQ(run.split, SplitMethod::global_clock);
  EXPECT_THAT(waits(run, 0), ElementsAre(50, 0, 30));
  EXPECT_THAT(transfers(run, 0), ElementsAre(30, 40, 20));
  EXPECT_EQ(run.calls[0].skew, 50);
  EXPECT_EQ(run.calls[0].transfer, 40);
  EXPECT_EQ(run.calls[0].last_to_enter, 1U);
  EXPECT_EQ(run.violations, 0U);
  EXPECT_EQ(run.clock_error_ns, 0);
  EXPECT_THAT(run.clock, HasSubstr("one machine"));
}

TEST(MergedCalls, OfABroadcastOnlyWhoIsEarlierThanTheRootWaits) {
  const MergedRun run =
      MadeUp(3).call(Op::broadcast, kPlan, 8, {{100, 110}, {40, 130}, {200, 205}}).merge();
  EXPECT_THAT(waits(run, 0), ElementsAre(0, 60, 0));
  EXPECT_THAT(transfers(run, 0), ElementsAre(10, 30, 5));
  EXPECT_EQ(run.calls[0].transfer, 30);
  EXPECT_EQ(run.violations, 0U) << "the root may leave before a late rank enters";
}

TEST(MergedCalls, OfAGatherOnlyTheRootWaits) {
  const MergedRun run =
      MadeUp(3).call(Op::gather, kHead, 8, {{100, 220}, {90, 95}, {200, 204}}).merge();
  EXPECT_THAT(waits(run, 0), ElementsAre(100, 0, 0));
  EXPECT_THAT(transfers(run, 0), ElementsAre(20, 5, 4));
  EXPECT_EQ(run.violations, 0U);
}

TEST(MergedCalls, CountWhoLeavesBeforeTheLastHasCome) {
  const MergedRun run = MadeUp(2)
                            .sum(kMlp, 8, {{100, 180}, {150, 190}})
                            .sum(kMlp, 8, {{200, 240}, {247, 290}})                   // 7 too early
                            .call(Op::barrier, kPlan, 0, {{310, 320}, {300, 309}})    // 1
                            .call(Op::broadcast, kPlan, 8, {{400, 410}, {390, 398}})  // 2
                            .call(Op::gather, kHead, 8, {{500, 510}, {512, 513}})     // 2
                            .merge();
  EXPECT_EQ(run.violations, 4U);
  EXPECT_EQ(run.worst_violation_ns, 7);
  EXPECT_EQ(run.parts_of(1)[0].wait, 40) << "waiting is no longer than the call";
}

TEST(MergedCalls, AlignClocksThatDrift) {
  MadeUp made(2);
  made.ranks()[1].who.machine = "another";
  // Rank 1's clock is 1000 ahead at rank 0's time 0 and 2000 ahead at time 1'000'000: at 500'000
  // it says 501'500.
  made.sum(kMlp, 8, {{500'000, 500'900}, {501'700, 502'450}});
  const std::vector<ClockOffset> first{{0, 0, 0}, {0, 1000, 30}};
  const std::vector<ClockOffset> last{{1'000'000, 0, 0}, {1'000'000, 2000, 40}};
  const MergedRun run = merge_records(made.ranks(), first, last);
  EXPECT_EQ(run.clock_error_ns, 40);
  EXPECT_NEAR(static_cast<double>(run.parts_of(0)[1].entry), 500'200, 1);
  EXPECT_NEAR(static_cast<double>(run.parts_of(0)[1].exit), 500'949, 1);
  EXPECT_NEAR(static_cast<double>(run.parts_of(0)[0].wait), 200, 1);
  EXPECT_EQ(run.split, SplitMethod::global_clock) << "40 is below a fifth of 749";
  EXPECT_THAT(run.clock, HasSubstr("2 machines"));
}

TEST(MergedCalls, DoNotTrustAClockThatIsWorseThanAFifthOfATransfer) {
  MadeUp made(2);
  made.ranks()[1].who.machine = "another";
  made.sum(kMlp, 8, {{100, 180}, {150, 190}});
  const std::vector<ClockOffset> first{{}, {0, 0, 8}}, worse{{}, {0, 0, 9}};
  EXPECT_EQ(merge_records(made.ranks(), first, first).split, SplitMethod::global_clock);
  const MergedRun run = merge_records(made.ranks(), first, worse);
  EXPECT_EQ(run.split, SplitMethod::min_over_ranks);
  EXPECT_THAT(waits(run, 0), ElementsAre(40, 0));  // calls of 80 and 40
  EXPECT_EQ(run.calls[0].transfer, 40);
  made.ranks()[0].calls[0].wait = 45;
  made.ranks()[1].calls[0].wait = 3;
  const MergedRun own = merge_records(made.ranks(), first, worse);
  EXPECT_EQ(own.split, SplitMethod::ranks_own);
  EXPECT_THAT(waits(own, 0), ElementsAre(45, 3));
}

TEST(MergedCalls, ForgiveAViolationWithinTheClocksError) {
  MadeUp made(2);
  made.ranks()[1].who.machine = "another";
  made.sum(kMlp, 8, {{100, 180}, {187, 290}});
  EXPECT_EQ(merge_records(made.ranks(), std::vector<ClockOffset>{{}, {0, 0, 7}},
                          std::vector<ClockOffset>(2))
                .violations,
            0U);
  EXPECT_EQ(merge_records(made.ranks(), std::vector<ClockOffset>{{}, {0, 0, 6}},
                          std::vector<ClockOffset>(2))
                .violations,
            1U);
}

TEST(MergedCalls, RanksOfOneMachineShareOneScale) {
  MadeUp made(2);
  for (RankRecords& r : made.ranks()) r.tsc = true;
  // 2 ticks a nanosecond by rank 0's anchors; rank 1's were read badly.
  made.ranks()[0].first = {0, 0}, made.ranks()[0].last = {2000, 1000};
  made.ranks()[1].first = {0, 30}, made.ranks()[1].last = {2000, 960};
  made.sum(kMlp, 8, {{200, 400}, {300, 400}});
  const MergedRun run = made.merge();
  EXPECT_EQ(run.parts_of(0)[0].entry, 100);
  EXPECT_EQ(run.parts_of(0)[1].entry, 150);
  EXPECT_EQ(run.parts_of(0)[0].exit, run.parts_of(0)[1].exit);
}

TEST(MergedCalls, LeaveOutCallsThatARankHasDropped) {
  MadeUp made(2);
  for (std::int64_t i = 0; i < 4; ++i)
    made.sum(kMlp, 8, {{100 * i, 100 * i + 9}, {100 * i, 100 * i + 9}});
  auto& calls = made.ranks()[1].calls;
  calls.erase(calls.begin(), calls.begin() + 2);
  made.ranks()[1].dropped_calls = 2;
  const MergedRun run = made.merge();
  ASSERT_EQ(run.calls.size(), 2U);
  EXPECT_EQ(run.calls[0].call.number, 3U);
  EXPECT_EQ(run.ranks[0].incomplete_calls, 2U);
  EXPECT_EQ(run.ranks[1].incomplete_calls, 0U);
  EXPECT_EQ(run.ranks[1].dropped_calls, 2U);
}

TEST(MergedCalls, RefuseRanksThatWereOutOfStep) {
  MadeUp made(2);
  made.sum(kMlp, 8, {{100, 180}, {150, 190}});
  made.ranks()[1].calls[0].bytes = 16;
  try {
    made.merge();
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::bug);
    EXPECT_THAT(e.what(), HasSubstr("rank 1 is out of step in all_reduce at mlp_out[0] (call 1)"));
    EXPECT_THAT(e.what(), HasSubstr("16 bytes"));
  }
}

TEST(MergedCalls, GiveAPlanToTheStepThatItIsFor) {
  MadeUp made(1);
  made.call(Op::broadcast, kPlan, 8, {{0, 1}});
  made.step({1, Phase::prefill, 5}, {{2, 20}});
  made.sum(kAttention, 8, {{3, 4}}).call(Op::gather, kHead, 8, {{21, 22}});
  made.call(Op::broadcast, kPlan, 8, {{23, 24}})
      .call(Op::gather, kHead, 8, {{25, 26}});  // asks again
  made.call(Op::broadcast, kPlan, 8, {{27, 28}});
  made.step({2, Phase::decode, 1}, {{29, 40}});
  made.sum(kAttention, 8, {{30, 31}}).call(Op::gather, kHead, 8, {{41, 42}});
  made.call(Op::broadcast, kPlan, 8, {{43, 44}});  // stop
  const MergedRun run = made.merge();
  std::vector<std::uint64_t> steps;
  for (const MergedCall& call : run.calls) steps.push_back(call.step.number);
  EXPECT_THAT(steps, ElementsAre(1, 1, 1, 1, 1, 2, 2, 2, 0));
}

// Ranks as threads hand in records of calls that they made.
TEST(MergedCalls, OfRealRanksHaveNoViolations) {
  run_ranks(3, [](int rank, Communicator& comm, Backend&) {
    CallLog log(100);
    const TickAnchor first = TickAnchor::now();
    const auto first_offsets = measure_clock_offsets(comm, machine_id());
    for (std::uint64_t i = 1; i <= 50; ++i) {
      RecordedCall recorded(log, {Op::barrier, kPlan, i});
      comm.barrier(kPlan);
      recorded.end("shm", DType::u8, 0, 0);
    }
    RankRecords mine = take_records(log, {.host = "here", .cores = "0", .machine = machine_id()});
    mine.first = mine.run = first;
    mine.last = TickAnchor::now();
    const auto last_offsets = measure_clock_offsets(comm, machine_id());
    const std::vector<RankRecords> ranks = gather_records(comm, mine);
    EXPECT_EQ(ranks.size(), rank == 0 ? 3U : 0U);
    if (rank != 0) return;
    const MergedRun run = merge_records(ranks, first_offsets, last_offsets);
    EXPECT_EQ(run.calls.size(), 50U);
    EXPECT_EQ(run.violations, 0U) << run.worst_violation_ns << " ns";
    EXPECT_EQ(run.clock_error_ns, 0);
    EXPECT_EQ(run.calls[0].algorithm, "shm");
  });
}

// Nobody says that the ranks have one clock, so they exchange times.
TEST(ClockOffsets, OfOneClockAreWithinTheirErrors) {
  run_ranks(3, [](int rank, Communicator& comm, Backend&) {
    const auto offsets = measure_clock_offsets(comm, "machine " + std::to_string(rank));
    ASSERT_EQ(offsets.size(), rank == 0 ? 3U : 0U);
    if (rank != 0) return;
    EXPECT_EQ(offsets[0].error_ns, 0);
    for (std::size_t r = 1; r < 3; ++r) {
      EXPECT_GT(offsets[r].error_ns, 0);
      EXPECT_LE(std::abs(offsets[r].offset_ns), offsets[r].error_ns);
    }
  });
}

TEST(ClockOffsets, ComeFromTheMiddleOfTheRoundTrip) {
  const ClockOffset o = offset_of(1000, 5600, 1101);
  EXPECT_EQ(o.at_ns, 1050);
  EXPECT_EQ(o.offset_ns, 4550);
  EXPECT_EQ(o.error_ns, 51);
}

TEST(RankRecords, JoinTheLaunchesOfOneCall) {
  CallLog log(8);
  log.calls.add({.call = {Op::all_reduce, kMlp, 7},
                 .algorithm = "ipc",
                 .bytes = 64,
                 .wire_tx = 64,
                 .start = 10,
                 .end = 20,
                 .wait = 3});
  log.calls.add({.call = {Op::all_reduce, kMlp, 7},
                 .algorithm = "ipc",
                 .bytes = 32,
                 .wire_tx = 32,
                 .start = 20,
                 .end = 31,
                 .wait = 2});
  log.calls.add(
      {.call = {Op::all_reduce, kMlp, 8}, .algorithm = "nccl", .bytes = 8, .start = 40, .end = 50});
  std::vector<std::byte> message;
  write_records(take_records(log, {.host = "a", .cores = "1-2", .machine = "m"}), message);
  const RankRecords records = read_records(message);
  EXPECT_EQ(records.who.host, "a");
  EXPECT_EQ(records.who.cores, "1-2");
  EXPECT_THAT(records.algorithms, ElementsAre("ipc", "nccl"));
  ASSERT_EQ(records.calls.size(), 2U);
  EXPECT_EQ(records.calls[0].bytes, 96U);
  EXPECT_EQ(records.calls[0].wire_tx, 96);
  EXPECT_EQ(records.calls[0].start, 10);
  EXPECT_EQ(records.calls[0].end, 31);
  EXPECT_EQ(records.calls[0].wait, 5);
  EXPECT_EQ(records.calls[1].algorithm, 1U);
  EXPECT_EQ(records.calls[1].wait, -1);
  message.pop_back();
  EXPECT_THROW(read_records(message), Error);
}

TEST(RankRecords, PutADevicesCallsAmongTheHosts) {
  CallLog host(8), device(8);
  device.clock = TickClock::steady;
  host.calls.add({.call = {Op::broadcast, kPlan, 1}, .algorithm = "shm", .start = 10, .end = 20});
  host.calls.add({.call = {Op::all_reduce, kMlp, 2}, .algorithm = "shm", .start = 50, .end = 60});
  host.calls.add({.call = {Op::gather, kHead, 3}, .algorithm = "shm", .start = 180, .end = 200});
  device.calls.add({.call = {Op::all_reduce, kMlp, 1},
                    .algorithm = "ipc",
                    .bytes = 8,
                    .start = 1020,
                    .end = 1040,
                    .wait = 4});
  RankRecords records = take_records(host, {.host = "a", .cores = "1", .machine = "m"});
  records.tsc = true;  // 2 ticks a nanosecond; tick 0 is at 1000 ns
  records.first = {0, 1000};
  records.last = {200, 1100};
  add_device_records(records, device);
  const MergedRun run =
      merge_records({&records, 1}, std::vector<ClockOffset>(1), std::vector<ClockOffset>(1));
  ASSERT_EQ(run.calls.size(), 3U);
  EXPECT_EQ(run.calls[1].algorithm, "ipc");
  EXPECT_EQ(run.parts_of(1)[0].entry, 1020);
  EXPECT_EQ(run.parts_of(1)[0].exit, 1040);
  EXPECT_EQ(run.parts_of(1)[0].own_wait, 4);
  EXPECT_EQ(run.parts_of(2)[0].entry, 1090);
  EXPECT_GE(run.clock_error_ns, 10'000);
  EXPECT_THAT(run.clock, HasSubstr("GPU"));
}

}  // namespace
}  // namespace shardlm
