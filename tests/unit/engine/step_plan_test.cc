#include "engine/step_plan.h"

#include <gtest/gtest.h>

namespace shardlm {
namespace {

TEST(StepPlan, survives_the_wire) {
  StepPlan plan{.command = Command::ask, .exit_code = 3, .sequences = {}, .queries = {}};
  plan.sequences.push_back({.start = 7, .ids = {1, 2, 3}, .blocks = {5, 9}});
  plan.sequences.push_back({.start = 0, .ids = {}, .blocks = {}});
  RowQuery q{.row = 2, .query = {}, .penalties = {{.id = 4, .repeated = true, .subtract = 0.5F}}};
  q.query.temperature = 0.7;
  q.query.n_candidates = 40;
  q.query.seed = 1ULL << 63;
  q.query.target = 11;
  q.query.n_bounds = 1;
  q.query.bounds[0] = {.penalised = 2.5F, .id = 77};
  plan.queries.push_back(q);
  std::vector<std::byte> message;
  write_plan(plan, message);
  StepPlan got;
  read_plan(message, got);
  EXPECT_EQ(got.command, Command::ask);
  EXPECT_EQ(got.exit_code, 3);
  ASSERT_EQ(got.sequences.size(), 2U);
  EXPECT_EQ(got.sequences[0].ids, (std::vector<std::int32_t>{1, 2, 3}));
  EXPECT_EQ(got.sequences[0].blocks, (std::vector<std::int32_t>{5, 9}));
  ASSERT_EQ(got.queries.size(), 1U);
  EXPECT_EQ(got.queries[0].query.seed, 1ULL << 63);
  EXPECT_EQ(got.queries[0].query.target, 11);
  EXPECT_EQ(got.queries[0].query.n_bounds, 1);
  EXPECT_EQ(got.queries[0].query.bounds[0].penalised, 2.5F);
  EXPECT_EQ(got.queries[0].query.bounds[0].id, 77);
  ASSERT_EQ(got.queries[0].query.penalties.size(), 1U);
  EXPECT_EQ(got.queries[0].query.penalties[0].id, 4);
}

TEST(StepPlan, replies_survive_the_wire) {
  std::vector<LogitReply> replies(2);
  replies[0].raw = {.max = 1.5F, .sum = 2.25};
  replies[0].candidates = {{.id = 3, .raw = 1, .penalised = 0.5F, .score = 0.25}};
  replies[0].tempered = {.max = 0.5, .sum = 8};
  replies[0].before = {0, 1.25, 3, 4};
  replies[0].top = {{.id = 6, .raw = 2, .penalised = 2, .score = 2}};
  replies[1].first_bad_id = 12;
  replies[1].target = -4.0F;
  std::vector<std::byte> message;
  write_replies(replies, message);
  std::vector<LogitReply> got(5);
  read_replies(message, got);
  ASSERT_EQ(got.size(), 2U);
  EXPECT_EQ(got[0].raw.sum, 2.25);
  EXPECT_EQ(got[0].tempered.sum, 8);
  EXPECT_EQ(got[0].before, replies[0].before);
  ASSERT_EQ(got[0].top.size(), 1U);
  EXPECT_EQ(got[0].top[0].id, 6);
  ASSERT_EQ(got[0].candidates.size(), 1U);
  EXPECT_EQ(got[0].candidates[0].penalised, 0.5F);
  EXPECT_FALSE(got[0].target.has_value());
  EXPECT_EQ(got[1].first_bad_id, 12);
  EXPECT_EQ(got[1].target, -4.0F);
}

TEST(StepPlan, a_message_cut_anywhere_is_a_bug_that_is_noticed) {
  StepPlan plan;
  plan.sequences.push_back({.start = 7, .ids = {1, 2, 3}, .blocks = {5, 9}});
  std::vector<std::byte> message;
  write_plan(plan, message);
  for (std::size_t n = 0; n < message.size(); ++n) {
    StepPlan got;
    EXPECT_THROW(read_plan(std::span(message).first(n), got), Error) << n;
  }
}

}  // namespace
}  // namespace shardlm
