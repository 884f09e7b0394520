#include "backend/cuda/kernels/query_logits.h"

#include "base/error.h"
#include "tests/gpu/kernels/query_logits_case.h"

namespace shardlm::cuda {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

class QueryLogits : public KernelTest {};
SHARDLM_EVERY_THREAD_ORDER(QueryLogits);

/// One question of each kind: every way to find a list, alone and beside another.
std::vector<LogitQuery> all_kinds(std::int64_t width, std::span<const LogitPenalty> penalties) {
  const int all = static_cast<int>(width) + 5;
  return {
      {.target = 107},
      {.temperature = 0.7, .n_candidates = 64},
      {.n_candidates = 2, .n_top = 65},
      {.repetition = 1.3F, .penalties = penalties, .n_candidates = 65, .n_top = 1},
      {.repetition = 1.3F, .penalties = penalties, .temperature = 1.5, .n_candidates = 1000},
      {.n_candidates = all, .n_top = 64},
      {.penalties = penalties, .temperature = 0.9, .noise = true, .seed = 5, .n_top = all},
      {.temperature = 0.9, .n_candidates = 70, .noise = true, .sequence = 3, .position = 9},
      {.n_candidates = 0, .target = 99},
      {.repetition = 0.5F, .penalties = penalties, .n_top = 20},
  };
}

TEST_P(QueryLogits, AnswersAreThoseOfTheCpu) {
  const std::vector<LogitPenalty> penalties = {
      {2, true, 1},   {99, false, 4}, {100, true, 0.5F},    {101, false, -3},
      {130, true, 0}, {131, true, 0}, {1300, false, -2.5F}, {100000, true, 7}};
  for (const std::int64_t width : {1, 31, 257, 1025, 1733}) {
    SCOPED_TRACE("width " + std::to_string(width));
    LogitCase one{.width = width, .queries = all_kinds(width, penalties), .begin = 100};
    one.logits = normal_logits(one.rows(), width, static_cast<std::uint32_t>(width));
    ask_and_compare(stream, one);
  }
}

// 32 tiles: three rounds of merging.
TEST(QueryLogitsWide, RowsTakeSeveralRoundsOfMerging) {
  const TestStream stream;
  LogitCase one{.width = 31 * 1024 + 1, .queries = {{.n_candidates = 64}}};
  one.logits = normal_logits(1, one.width, 2);
  one.logits.back() = 100;  // the first place comes with the last tile
  const auto replies = ask_and_compare(stream, one);
  EXPECT_EQ(replies[0].candidates[0].id, 31 * 1024);
}

TEST_P(QueryLogits, NoColumnsAndNoRows) {
  const LogitCase narrow{
      .width = 0, .queries = {{.n_candidates = 3, .n_top = 70, .target = 0}, {.temperature = 2}}};
  for (const LogitReply& reply : ask_and_compare(stream, narrow)) {
    EXPECT_EQ(reply.raw.max, -kInfinity);
    EXPECT_TRUE(reply.candidates.empty());
  }
  EXPECT_TRUE(ask_device(stream, {.width = 8, .queries = {}}).empty());
}

TEST_P(QueryLogits, RowsMayStandApartAndUnaligned) {
  for (const DeviceMatrix::Layout layout :
       {DeviceMatrix::Layout{1, 0}, {4, 0}, {0, 1}, {8, 4}, {3, 2}}) {
    SCOPED_TRACE("gap " + std::to_string(layout.gap) + " offset " + std::to_string(layout.offset));
    LogitCase one{.width = 300,
                  .queries = {{.temperature = 2}, {.n_candidates = 9}, {.n_top = 80}},
                  .layout = layout};
    one.logits = normal_logits(one.rows(), one.width, 4);
    ask_and_compare(stream, one);
  }
}

TEST_P(QueryLogits, EqualScoresRankByTheLowestId) {
  std::vector<LogitQuery> queries;
  for (const int n : {1, 2, 40, 64, 65, 200, 700, 1300}) {
    queries.push_back({.n_candidates = n, .n_top = n});
  }
  LogitCase one{.width = 1300, .queries = queries, .begin = 7};
  for (std::int64_t i = 0; i < one.rows() * one.width; ++i) {
    const std::int64_t column = i % one.width;
    one.logits.push_back(column % 5 == 0 ? 2.0F : column % 2 == 0 ? 0.0F : -0.0F);
  }
  const auto replies = ask_and_compare(stream, one);
  EXPECT_EQ(replies[5].candidates[65].id, 7 + 5 * 65);
  EXPECT_EQ(replies[6].candidates.back().id, 7 + 549);  // 260 twos, then 440 zeros of either sign
}

TEST_P(QueryLogits, AllEqual) {
  LogitCase one{.width = 600, .queries = {{.n_candidates = 599, .n_top = 3}, {.n_candidates = 66}}};
  one.logits.assign(1200, -7.5F);
  ask_and_compare(stream, one);
}

TEST_P(QueryLogits, NamesTheFirstLogitThatIsNotFinite) {
  LogitCase one{.width = 1500, .queries = all_kinds(1500, {}), .begin = 30};
  one.logits = normal_logits(one.rows(), one.width, 6);
  const auto logit = [&](std::int64_t row, std::int64_t column) -> float& {
    return one.logits[static_cast<std::size_t>(row * one.width + column)];
  };
  logit(1, 1499) = kNan;
  logit(2, 700) = -kInf;
  logit(2, 1400) = kInf;
  logit(3, 300) = logit(3, 299) = kNan;
  logit(4, 0) = kInf;
  logit(5, 800) = kNan;
  logit(7, 77) = kInf;
  one.allowed[80] = 0;
  for (std::int64_t row = 0; row < one.rows(); ++row) logit(row, 80) = kNan;
  const auto replies = ask_and_compare(stream, one);
  EXPECT_EQ(replies[0].first_bad_id, -1);
  EXPECT_EQ(replies[2].first_bad_id, 730);
  EXPECT_EQ(replies[3].first_bad_id, 329);
  EXPECT_TRUE(replies[5].candidates.empty());
}

TEST_P(QueryLogits, WhatIsNotAllowedIsNeverLookedAt) {
  LogitCase one{.width = 500, .queries = all_kinds(500, {})};
  one.logits = normal_logits(one.rows(), one.width, 8);
  for (std::size_t i = 0; i < one.allowed.size(); ++i) {
    const bool odd_or_tail = i % 2 == 1 || i > 400;
    if (!odd_or_tail) continue;
    one.allowed[i] = 0;
    for (std::size_t row = 0; row < one.queries.size(); ++row) {
      one.logits[row * 500 + i] = i % 3 == 0 ? kNan : i % 3 == 1 ? kInf : 1e30F;
    }
  }
  ask_and_compare(stream, one);
  std::fill(one.allowed.begin(), one.allowed.end(), std::uint8_t{0});
  for (const LogitReply& reply : ask_and_compare(stream, one)) {
    EXPECT_TRUE(reply.candidates.empty() && reply.top.empty());
  }
  one.allowed[499] = 1;
  std::fill(one.logits.begin(), one.logits.end(), -2.0F);
  one.queries[0].target = 499;
  EXPECT_EQ(ask_and_compare(stream, one)[0].target, -2.0F);
}

TEST_P(QueryLogits, PenaltiesOfManyIds) {
  std::mt19937 random(9);
  std::vector<LogitPenalty> penalties;
  for (std::int32_t id = 0; id < 2000; ++id) {
    if (random() % 3 == 0) continue;
    penalties.push_back({id, random() % 2 == 0, static_cast<float>(random() % 100) / 50});
  }
  LogitCase one{.width = 1201, .queries = all_kinds(1201, penalties), .begin = 401};
  one.logits = normal_logits(one.rows(), one.width, 10);
  one.allowed[50] = one.allowed[51] = 0;
  ask_and_compare(stream, one);
}

TEST_P(QueryLogits, PenalisedLogitsStayFinite) {
  const std::vector<LogitPenalty> penalties = {{0, true, 0}, {1, true, 0}, {3, false, -kLargest}};
  LogitCase one{.width = 5,
                .queries = {{.repetition = 4, .penalties = penalties, .n_candidates = 5},
                            {.repetition = 0.25F, .penalties = penalties, .n_candidates = 5},
                            {.repetition = 4, .penalties = penalties, .temperature = 1e30}}};
  for (int row = 0; row < 3; ++row) {
    one.logits.insert(one.logits.end(), {kLargest, -kLargest, 1, kLargest / 2, -kLargest / 3});
  }
  const auto replies = ask_and_compare(stream, one);
  EXPECT_EQ(replies[0].candidates.back().penalised, -kLargest);
  EXPECT_EQ(replies[1].candidates.front().penalised, kLargest);
}

TEST_P(QueryLogits, SumsOfExtremeRows) {
  LogitCase one{.width = 400, .queries = {}};
  for (const double scale : {0.0, 1e-30, 1e-3, 30.0, 1e4, 1e30, 1e37}) {
    for (const double temperature : {0.0, 1e-42, 1e-5, 0.013, 1.0, 17.0, 1e6, 1e37, 1e300}) {
      one.queries.push_back({.temperature = temperature});
      const auto row = normal_logits(1, one.width, 11, scale);
      one.logits.insert(one.logits.end(), row.begin(), row.end());
    }
  }
  ask_and_compare(stream, one);
}

// A row for each of many pairs of ids that share the first place, in all combinations of lanes.
TEST_P(QueryLogits, BestOfTwoEqualIsTheLowest) {
  LogitCase one{.width = 600, .queries = std::vector<LogitQuery>(30)};
  std::mt19937 random(14);
  one.logits = normal_logits(one.rows(), one.width, 14, 0.5);
  for (std::size_t row = 0; row < one.queries.size(); ++row) {
    const std::size_t range = row < 20 ? 256 : 600;
    one.logits[row * 600 + random() % range] = 9;
    one.logits[row * 600 + random() % range] = 9;
  }
  ask_and_compare(stream, one);
}

// Weights that are small one by one and large together: where roundings of exponents tell most.
TEST_P(QueryLogits, SumsOfManySmallWeights) {
  LogitCase one{.width = 256, .queries = {}};
  for (int i = 0; i < 25; ++i) {
    one.queries.push_back({.temperature = 0.6 + 0.0219 * i});
    one.logits.insert(one.logits.end(), 256, static_cast<float>(0.67 - 0.146 * i));
    one.logits[static_cast<std::size_t>(i) * 257] += 4.3F;
  }
  ask_and_compare(stream, one);
}

// Clusters far apart: each round of the radix selection has to find its way anew.
TEST_P(QueryLogits, LongListsOfClusteredLogits) {
  std::vector<LogitQuery> queries;
  for (const int n : {65, 150, 250, 333, 450, 700, 799}) queries.push_back({.n_candidates = n});
  LogitCase one{.width = 800, .queries = queries};
  std::mt19937 random(12);
  for (std::int64_t i = 0; i < one.width; ++i) {
    const float base = std::array{-kLargest, 1.0F, 1e-30F, kLargest * 0.5F}[random() % 4];
    const auto step = static_cast<float>(random() % 32) * 0x1p-23F;
    one.logits.push_back(base - base * step);
  }
  for (std::size_t row = 1; row < queries.size(); ++row) {
    for (std::size_t i = 0; i < 800; ++i) one.logits.push_back(one.logits[i]);
  }
  ask_and_compare(stream, one);
}

TEST_P(QueryLogits, RefusesWhatCannotBe) {
  EXPECT_THROW(
      ask_device(stream, {.width = 4, .queries = {{.noise = true}}, .logits = {1, 2, 3, 4}}),
      Error);
  const LogitQuery late{.temperature = 1, .noise = true, .position = std::uint64_t{1} << 32};
  EXPECT_THROW(ask_device(stream, {.width = 1, .queries = {late}, .logits = {1}}), Error);
  const LogitQuery plain;
  const LogitPlan plan = plan_logit_queries({&plain, 1}, 0, 4);
  EXPECT_THROW(query_logits(stream, {nullptr, 1, 4, 4, DType::f16}, plan, {}), Error);
  EXPECT_THROW(query_logits(stream, {nullptr, 1, 5, 5, DType::f32}, plan, {}), Error);
  std::vector<std::byte> block(plan.upload_bytes + 1);
  EXPECT_THROW(pack_logit_queries({&plain, 1}, plan, block), Error);
  std::vector<LogitReply> replies(1);
  EXPECT_THROW(unpack_logit_replies({&plain, 1}, plan, block, replies), Error);
}

TEST(QueryLogitsBits, DoNotDependOnTheThreadOrder) {
  const TestStream stream;
  LogitCase one{.width = 1500, .queries = all_kinds(1500, {})};
  one.logits = normal_logits(one.rows(), one.width, 13, 1);
  const auto forward = ask_device(stream, one);
  for (const ThreadOrder order : {ThreadOrder::reverse, ThreadOrder::shuffled}) {
    set_thread_order(order);
    const auto other = ask_device(stream, one);
    for (std::size_t row = 0; row < other.size(); ++row) {
      EXPECT_EQ(other[row].raw.sum, forward[row].raw.sum);
      EXPECT_EQ(other[row].tempered.sum, forward[row].tempered.sum);
    }
  }
  set_thread_order(ThreadOrder::forward);
}

}  // namespace
}  // namespace shardlm::cuda
