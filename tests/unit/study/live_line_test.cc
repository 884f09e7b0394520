#include "study/live_line.h"

#include <gtest/gtest.h>

#include <vector>

namespace shardlm {
namespace {

CallLog log_of_two_passes(std::int64_t wait) {
  CallLog log(100, 10);
  log.steps.add({{1, Phase::prefill, 5}, 0, 1000});
  log.calls.add(
      {.call = {Op::gather, {SiteKind::lm_head}, 1}, .bytes = 8, .start = 1005, .end = 1015});
  log.calls.add(
      {.call = {Op::broadcast, {SiteKind::step}, 2}, .bytes = 92, .start = 1100, .end = 1150});
  log.calls.add({.call = {Op::all_reduce, {SiteKind::embed}, 3},
                 .bytes = 3072,
                 .start = 1300,
                 .end = 1400,
                 .wait = wait});
  log.calls.add({.call = {Op::all_reduce, {SiteKind::mlp_out, 0}, 4},
                 .bytes = 3072,
                 .start = 1700,
                 .end = 1740,
                 .wait = wait});
  log.steps.add({{2, Phase::decode, 1}, 1160, 2000});
  return log;
}

TEST(LiveLine, AddsUpTheLastPass) {
  // 1000 to 2000 at 1000 ns a tick: calls of 10, 50, 100 and 40, of which 2 x 30 were waiting.
  const StepCost cost = last_step_cost(log_of_two_passes(30), 1000);
  EXPECT_NEAR(cost.total_ms, 1.0, 1e-12);
  EXPECT_NEAR(cost.compute_ms, 0.8, 1e-12);
  EXPECT_NEAR(cost.wait_ms, 0.06, 1e-12);
  EXPECT_NEAR(cost.transfer_ms, 0.14, 1e-12);
  EXPECT_EQ(cost.messages, 4U);
  EXPECT_EQ(cost.bytes, 6244U);
  EXPECT_EQ(live_line(17, {&cost, 1}),
            "tok 17  1.00 ms = 0.80 comp + 0.06 wait + 0.14 xfer | 6 kB in 4 msgs");
}

TEST(LiveLine, DoesNotClaimToKnowTheWait) {
  const StepCost cost = last_step_cost(log_of_two_passes(-1), 1000);
  EXPECT_EQ(live_line(17, {&cost, 1}), "tok 17  1.00 ms = 0.80 comp + 0.20 comm | 6 kB in 4 msgs");
}

TEST(LiveLine, IsTheMeanOverRanks) {
  const std::vector<StepCost> ranks = {{.total_ms = 6.4,
                                        .compute_ms = 5,
                                        .wait_ms = 0.4,
                                        .transfer_ms = 1,
                                        .bytes = 74'000,
                                        .messages = 25},
                                       {.total_ms = 6.42,
                                        .compute_ms = 5.04,
                                        .wait_ms = 0.22,
                                        .transfer_ms = 1.16,
                                        .bytes = 74'000,
                                        .messages = 25}};
  EXPECT_EQ(live_line(17, ranks),
            "tok 17  6.41 ms = 5.02 comp + 0.31 wait + 1.08 xfer | 74 kB in 25 msgs");
}

TEST(LiveLine, OfNothing) {
  const StepCost cost = last_step_cost(CallLog(1, 1), 1);
  EXPECT_EQ(live_line(1, {&cost, 1}),
            "tok 1  0.00 ms = 0.00 comp + 0.00 wait + 0.00 xfer | 0 B in 0 msgs");
}

}  // namespace
}  // namespace shardlm
