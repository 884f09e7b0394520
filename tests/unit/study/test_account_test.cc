// Windows of runs, and what a test's repetitions add up to. The run is one_pass.h's.
#include "study/test_account.h"

#include <gtest/gtest.h>

#include "study/run_window.h"
#include "tests/unit/study/one_pass.h"

namespace shardlm {
namespace {

using Sums = TestAccount::Sums;

ModelConfig one_layer() {
  ModelConfig config;
  config.n_layer = 1;
  config.n_embd = 6;
  return config;
}

RankRow rank_of(const MergedRun& run, std::size_t rank) {
  TestAccount account(one_layer(), Sums::floats);
  account.add(run, 1);
  return account.ranks()[rank];
}

TEST(RunWindow, OfTheWholeRunChangesNothing) {
  const MergedRun run = window_of(one_pass().merge(), 0, 1000);
  EXPECT_EQ(run.calls.size(), 4U);
  const RankRow rank = rank_of(run, 0);
  EXPECT_DOUBLE_EQ(rank.wall_s, 1000e-9);
  EXPECT_NEAR(rank.sum_s(), rank.wall_s, 1e-15);
}

TEST(RunWindow, CutsCallsAtItsBorders) {
  // From within rank 1's wait for the plan (0 to 100 of 0 to 120) to within rank 0's gather.
  const MergedRun run = window_of(one_pass().merge(), 40, 750);
  ASSERT_EQ(run.calls.size(), 4U);
  const RankPart& plan = run.parts_of(0)[1];
  EXPECT_EQ(plan.entry, 40);
  EXPECT_EQ(plan.exit, 120);
  EXPECT_EQ(plan.wait, 60);  // what was left of it
  const RankPart& answers = run.parts_of(3)[0];
  EXPECT_EQ(answers.exit, 750);
  for (std::size_t r = 0; r < 2; ++r) {
    const RankRow rank = rank_of(run, r);
    EXPECT_DOUBLE_EQ(rank.wall_s, 710e-9);
    EXPECT_NEAR(rank.sum_s(), rank.wall_s, 1e-15);
  }
}

TEST(RunWindow, LeavesOutWhatIsOutside) {
  const MergedRun run = window_of(one_pass().merge(), 450, 600);
  ASSERT_EQ(run.calls.size(), 1U);  // rank 1 waits in attention from 500 on; rank 0 computes
  EXPECT_EQ(run.calls[0].call.site.kind, SiteKind::attn_out);
  EXPECT_EQ(run.parts_of(0)[0].call(), 0);
  EXPECT_EQ(run.parts_of(0)[1].wait, 100);
  EXPECT_EQ(run.ranks[0].steps.size(), 1U);
  const RankRow rank = rank_of(run, 1);
  EXPECT_NEAR(rank.compute_s, 50e-9, 1e-15);
  EXPECT_NEAR(rank.wait_s, 100e-9, 1e-15);
}

TEST(TestAccount, AddsUpRepetitions) {
  TestAccount once(one_layer(), Sums::floats), twice(one_layer(), Sums::floats);
  once.add(one_pass().merge(), 1);
  twice.add(one_pass().merge(), 1);
  twice.add(one_pass().merge(), 1);
  EXPECT_EQ(twice.steps(), 2U);
  for (std::size_t r = 0; r < 2; ++r) {
    EXPECT_DOUBLE_EQ(twice.ranks()[r].compute_s, 2 * once.ranks()[r].compute_s);
    EXPECT_DOUBLE_EQ(twice.ranks()[r].wall_s, 2 * once.ranks()[r].wall_s);
  }
  // The factors are those of one of two equal repetitions, and those of its report.
  const CommReport report = make_comm_report(one_pass().merge(), {});
  ASSERT_EQ(report.phases.size(), 1U);
  for (const TestAccount* account : {&once, &twice}) {
    EXPECT_NEAR(account->load_balance(), report.phases[0].load_balance, 1e-12);
    EXPECT_NEAR(account->serialisation(), report.phases[0].serialisation, 1e-12);
    EXPECT_NEAR(account->transfer_efficiency(), report.phases[0].transfer, 1e-12);
    EXPECT_TRUE(account->closes());
  }
}

TEST(TestAccount, CountsAllReducesAgainstTheFormula) {
  TestAccount account(one_layer(), Sums::floats);
  account.add(one_pass().merge(), 1);
  const AllReduceCount& sums = account.all_reduces();
  // One token, 6 wide: 24 bytes each. The made-up pass has two of the three of a layer.
  EXPECT_EQ(sums.calls, 2U);
  EXPECT_EQ(sums.bytes, 48U);
  EXPECT_EQ(*sums.sent, 4 * 24U);
  EXPECT_EQ(sums.expected_calls, 3U);
  EXPECT_EQ(sums.expected_bytes, 72U);
  EXPECT_FALSE(sums.as_expected());
  EXPECT_EQ(sums.transfers_us.size(), 2U);
  TestAccount alone(one_layer(), Sums::none);
  alone.add(one_pass().merge(), 1);
  EXPECT_EQ(alone.all_reduces().expected_calls, 0U);
  TestAccount exact(one_layer(), Sums::exact);
  exact.add(one_pass().merge(), 1);
  EXPECT_EQ(exact.all_reduces().expected_bytes, 24U + 2 * 48U);
}

TEST(TestAccount, DoesNotCloseIfAnythingIsMissing) {
  TestAccount passes(one_layer(), Sums::floats), records(one_layer(), Sums::floats);
  passes.add(one_pass().merge(), 2);
  EXPECT_FALSE(passes.closes());
  MadeUp lossy = one_pass();
  lossy.ranks()[1].dropped_calls = 1;
  records.add(lossy.merge(), 1);
  EXPECT_EQ(records.lost(), 1U);
  EXPECT_FALSE(records.closes());
  EXPECT_FALSE(TestAccount(one_layer(), Sums::floats).closes());
}

}  // namespace
}  // namespace shardlm
