#include "engine/cuts.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "io/json.h"
#include "tests/unit/engine/sharded_row.h"

namespace shardlm {
namespace {

// Trap 110. (.5 + .3 in float32 logits is not exactly .8: .79 and .81 stand on either side.)
TEST(Cuts, TopPEdges) {
  const std::vector<float> logits{std::log(.5F), std::log(.3F), std::log(.2F)};
  const std::pair<double, std::size_t> kept[] = {{0, 1},   {1e-9, 1}, {.49, 1}, {.51, 2},
                                                 {.79, 2}, {.81, 3},  {1, 3}};
  for (const auto& [top_p, expected] : kept) {
    EXPECT_EQ(histogram(logits, {.top_p = top_p}, 500).size(), expected) << top_p;
  }
}

TEST(Cuts, TopPCountsTheMassThatTopKLeft) {
  // Of .5 .3 .2, top-k 2 leaves .625 .375: top-p .6 keeps one, .63 keeps two.
  const std::vector<float> logits{std::log(.2F), std::log(.5F), std::log(.3F)};
  EXPECT_EQ(histogram(logits, {.top_k = 2, .top_p = .6}, 300).size(), 1U);
  EXPECT_EQ(histogram(logits, {.top_k = 2, .top_p = .63}, 300).size(), 2U);
  EXPECT_EQ(histogram(logits, {.top_p = .6}, 300).size(), 2U);
}

TEST(Cuts, MinPComparesWithTheBest) {
  const std::vector<float> logits{std::log(.2F), std::log(.5F), std::log(.3F)};
  EXPECT_EQ(histogram(logits, {.min_p = .39}, 300).size(), 3U);
  EXPECT_EQ(histogram(logits, {.min_p = .41}, 300).size(), 2U);
  EXPECT_EQ(histogram(logits, {.min_p = .61}, 300).size(), 1U);
  EXPECT_EQ(histogram({2, 2, 1, 2}, {.min_p = 1}, 300).size(), 3U);  // ties of the best stay
}

/// Ranking and log-sum-exp of a row of logits cut over `ranks`, every id a candidate.
std::pair<Ranking, LogSumExp> rank_all(const std::vector<float>& logits, double temperature,
                                       float repetition, const std::vector<LogitPenalty>& seen) {
  ShardedRow row(logits, 3);
  LogitQuery query;
  query.repetition = repetition;
  query.penalties = seen;
  query.temperature = temperature;
  query.n_candidates = static_cast<int>(logits.size());
  const std::vector<LogitReply> replies = row.ask(query);
  std::pair<Ranking, LogSumExp> result;
  merge_candidates(replies, query.n_candidates, vocabulary(logits), result.first);
  std::vector<LogSumExp> parts;
  for (const LogitReply& reply : replies) parts.push_back(reply.tempered);
  result.second = join(parts);
  return result;
}

SamplingParams params_of(const nlohmann::json& entry) {
  SamplingParams params;
  params.temperature = entry.at("temperature").get<double>();
  params.top_k = entry.at("top_k").get<std::int64_t>();
  params.top_p = entry.at("top_p").get<double>();
  params.min_p = entry.at("min_p").get<double>();
  params.repetition_penalty = entry.at("repetition_penalty").get<double>();
  return params;
}

// Traps 92 and 110 once more, and 20 random rows: what transformers' logits processors keep
// (tools/golden_sampling.py).
TEST(Cuts, KeepWhatHuggingFaceKeeps) {
  const nlohmann::json golden =
      read_json_file(std::string(SHARDLM_TEST_DATA) + "/golden/hf_sampling.json");
  int compared = 0;
  for (const nlohmann::json& entry : golden.at("cases")) {
    SCOPED_TRACE(entry.at("name").get<std::string>());
    const SamplingParams params = params_of(entry);
    if (entry.contains("refused")) {
      EXPECT_THROW(validate(params), Error);
      continue;
    }
    validate(params);
    const auto logits = entry.at("logits").get<std::vector<float>>();
    Sampler sampler(params, 0, entry.at("seen_ids").get<Ids>(), vocabulary(logits));
    const auto penalties = sampler.query(0).penalties;
    const auto [ranking, tempered] =
        rank_all(logits, params.temperature, static_cast<float>(params.repetition_penalty),
                 {penalties.begin(), penalties.end()});
    const auto kept = kept_count(params, ranking, tempered);
    ASSERT_TRUE(kept);
    std::map<std::int32_t, double> mine;
    double total = 0;
    for (std::size_t i = 0; i < *kept; ++i) {
      const double x = static_cast<double>(ranking.sorted[i].penalised) / params.temperature;
      total += mine[ranking.sorted[i].id] = std::exp(x);
    }
    const Ids ids = entry.at("kept_ids").get<Ids>();
    const auto probabilities = entry.at("probabilities").get<std::vector<double>>();
    ASSERT_EQ(mine.size(), ids.size());
    for (std::size_t i = 0; i < ids.size(); ++i) {
      ASSERT_TRUE(mine.contains(ids[i]));
      EXPECT_NEAR(mine[ids[i]] / total, probabilities[i], 2e-6);  // penalties are float32 here
    }
    ++compared;
  }
  EXPECT_GE(compared, 25);
}

TEST(Cuts, TheOrderIsKnownUpToTheFirstRankThatMayHaveMore) {
  const auto reply = [](std::vector<std::pair<std::int32_t, float>> sent) {
    LogitReply made;
    for (const auto& [id, x] : sent) made.candidates.push_back({id, x, x, x});
    return made;
  };
  Ranking ranking;
  // Rank 0 may have ids just below 3; rank 1 below 7; rank 2 has sent all it has.
  const std::vector<LogitReply> replies{reply({{0, 9}, {1, 3}}), reply({{10, 8}, {11, 7}}),
                                        reply({{20, 1}})};
  merge_candidates(replies, 2, 30, ranking);
  EXPECT_FALSE(ranking.complete);
  EXPECT_EQ(ranking.known, 3U);  // 9, 8, 7
  ASSERT_EQ(ranking.sorted.size(), 5U);
  EXPECT_EQ(ranking.sorted[3].id, 1);
  merge_candidates(replies, 3, 30, ranking);
  EXPECT_TRUE(ranking.complete);
  EXPECT_EQ(ranking.known, 5U);
}

TEST(Cuts, JoinedSetsAreTheirUnion) {
  const float none = -std::numeric_limits<float>::infinity();
  const LogSumExp parts[] = {{none, 0}, {2, 3}, {none, 0}, {5, 1}};
  const LogSumExp all = join(parts);
  EXPECT_EQ(all.max, 5);
  EXPECT_DOUBLE_EQ(all.sum, 1 + 3 * std::exp(-3.0));
  EXPECT_EQ(join(std::span(parts).first(1)).sum, 0);
}

}  // namespace
}  // namespace shardlm
