// Properties of steps that must hold bit by bit: rows do not depend on their neighbours, on how a
// prompt was cut, on the order of a batch, or on whether someone listens.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/parallel/model_ranks.h"

namespace shardlm {
namespace {

namespace fs = std::filesystem;
const fs::path kModel = fs::path(SHARDLM_TEST_DATA) / "golden" / "base";

std::vector<std::int32_t> some_ids(int n, int seed) {
  std::vector<std::int32_t> ids;
  for (int i = 0; i < n; ++i) ids.push_back((seed * 31 + i * 17) % 101);
  return ids;
}

SequencePlan part(std::vector<std::int32_t> ids, std::int64_t start, std::int32_t block) {
  return {.start = start, .ids = std::move(ids), .blocks = {block}};
}

// The best candidate's raw logit of each query: float bits that any change would touch.
std::vector<double> best_logits(Coordinator& coordinator, StepPlan plan) {
  std::vector<double> best;
  for (const auto& of_ranks : coordinator.run(plan)) {
    double max = -INFINITY;
    for (const LogitReply& r : of_ranks) max = std::max(max, r.raw.max);
    best.push_back(max);
  }
  return best;
}

StepPlan asking_last(std::vector<SequencePlan> parts) {
  StepPlan plan;
  plan.sequences = std::move(parts);
  std::int32_t row = 0;
  for (const SequencePlan& s : plan.sequences) {
    row += static_cast<std::int32_t>(s.ids.size());
    plan.queries.push_back({.row = row - 1, .query = {}, .penalties = {}});
  }
  return plan;
}

class Steps : public testing::TestWithParam<int> {};

TEST_P(Steps, a_row_does_not_depend_on_the_batch) {
  run_model(kModel, GetParam(), [&](ModelRank& me) {
    const auto a = some_ids(1, 1), b = some_ids(5, 2), c = some_ids(9, 3);
    const auto alone_a = best_logits(me.coordinator, asking_last({part(a, 0, 0)}));
    const auto alone_b = best_logits(me.coordinator, asking_last({part(b, 0, 1)}));
    const auto alone_c = best_logits(me.coordinator, asking_last({part(c, 0, 2)}));
    const auto batch =
        best_logits(me.coordinator, asking_last({part(a, 0, 3), part(b, 0, 4), part(c, 0, 5)}));
    const auto turned =
        best_logits(me.coordinator, asking_last({part(c, 0, 6), part(a, 0, 7), part(b, 0, 8)}));
    EXPECT_EQ(batch, (std::vector<double>{alone_a[0], alone_b[0], alone_c[0]}));
    EXPECT_EQ(turned, (std::vector<double>{alone_c[0], alone_a[0], alone_b[0]}));
  });
}

TEST_P(Steps, a_prompt_may_be_cut_anywhere) {
  run_model(kModel, GetParam(), [&](ModelRank& me) {
    const auto ids = some_ids(13, 4);
    const auto whole = best_logits(me.coordinator, asking_last({part(ids, 0, 0)}));
    for (int chunk = 1; chunk < 13; ++chunk) {
      std::vector<double> last;
      for (int begin = 0; begin < 13; begin += chunk) {
        const int end = std::min(begin + chunk, 13);
        last = best_logits(me.coordinator,
                           asking_last({part({ids.begin() + begin, ids.begin() + end}, begin, 1)}));
      }
      EXPECT_EQ(last, whole) << "chunks of " << chunk;
    }
  });
}

TEST_P(Steps, listening_changes_no_bit) {
  const auto ids = some_ids(7, 5);
  std::vector<double> silent, heard;
  run_model(kModel, GetParam(), [&](ModelRank& me) {
    silent = best_logits(me.coordinator, asking_last({part(ids, 0, 0)}));
  });
  run_model(
      kModel, GetParam(),
      [&](ModelRank& me) { heard = best_logits(me.coordinator, asking_last({part(ids, 0, 0)})); },
      {.dump = true});
  EXPECT_EQ(silent, heard);
}

TEST_P(Steps, asking_again_answers_about_the_same_rows) {
  run_model(kModel, GetParam(), [&](ModelRank& me) {
    StepPlan plan = whole_step(some_ids(6, 6));
    std::vector<double> all = best_logits(me.coordinator, plan);
    plan.command = Command::ask;
    plan.queries = {plan.queries[1], plan.queries[4]};
    EXPECT_EQ(best_logits(me.coordinator, plan), (std::vector<double>{all[1], all[4]}));
  });
}

TEST_P(Steps, decoding_allocates_nothing_after_warm_up) {
  run_model(kModel, GetParam(), [&](ModelRank& me) {
    const auto decode = [&](std::int64_t at) {
      me.coordinator.run(asking_last({part({7}, at, 0)}));
    };
    me.coordinator.run(asking_last({part(some_ids(4, 7), 0, 0)}));
    for (std::int64_t at = 4; at < 7; ++at) decode(at);
    const std::size_t before = me.backend.allocations();
    for (std::int64_t at = 7; at < 20; ++at) decode(at);
    EXPECT_EQ(me.backend.allocations(), before);
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, Steps, testing::Values(1, 2, 3, 5, 7), [](const auto& instance) {
  return "ranks_" + std::to_string(instance.param);
});

}  // namespace
}  // namespace shardlm
