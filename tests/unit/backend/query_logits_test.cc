#include "backend/cpu/query_logits.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "base/error.h"
#include "base/philox.h"

namespace shardlm {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

/// A shard of one row.
struct Shard {
  std::vector<float> logits;
  std::int32_t begin = 0;
  std::vector<std::uint8_t> allowed = std::vector<std::uint8_t>(logits.size(), 1);

  LogitReply ask(const LogitQuery& query) {
    LogitReply reply;
    ask(query, reply);
    return reply;
  }
  void ask(const LogitQuery& query, LogitReply& reply) {
    const auto width = static_cast<std::int64_t>(logits.size());
    query_logits_cpu(Tensor::borrow(logits.data(), 1, width), {begin, allowed},
                     std::span(&query, 1), std::span(&reply, 1));
  }
};

std::vector<float> random_logits(std::size_t n, std::uint32_t seed, double scale = 3) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal(0, scale);
  std::vector<float> logits(n);
  for (float& x : logits) x = static_cast<float>(normal(random));
  return logits;
}

std::vector<std::int32_t> ids(const std::vector<Candidate>& candidates) {
  std::vector<std::int32_t> ids;
  for (const Candidate& candidate : candidates) ids.push_back(candidate.id);
  return ids;
}

using Ids = std::vector<std::int32_t>;

TEST(QueryLogits, BestIdsWithTiesByTheLowestId) {
  Shard shard{{1, 3, 2, 3, -1, 3}, 100};
  const LogitReply reply = shard.ask({.n_candidates = 4, .n_top = 2});
  EXPECT_EQ(ids(reply.candidates), (Ids{101, 103, 105, 102}));
  EXPECT_EQ(ids(reply.top), (Ids{101, 103}));
  EXPECT_EQ(reply.candidates[3].raw, 2);
  EXPECT_EQ(reply.candidates[3].score, 2);
  EXPECT_EQ(reply.first_bad_id, -1);
  EXPECT_FALSE(reply.target);
}

TEST(QueryLogits, LogSumExpOfLogProbabilitiesIsZero) {
  Shard shard{{std::log(0.5F), std::log(0.3F), std::log(0.2F)}};
  const LogitReply reply = shard.ask({.temperature = 0.5});
  EXPECT_NEAR(reply.raw.max + std::log(reply.raw.sum), 0, 1e-7);  // float32 logits
  EXPECT_NEAR(reply.tempered.max + std::log(reply.tempered.sum), std::log(0.25 + 0.09 + 0.04),
              1e-6);
}

TEST(QueryLogits, LogSumExpIsThatOfLongDoubles) {
  for (const std::size_t n : {1U, 7U, 2047U, 2048U, 2049U, 50257U}) {
    Shard shard{random_logits(n, 3, 12)};
    long double sum = 0;
    for (const float x : shard.logits) sum += std::exp(static_cast<long double>(x) / 0.7L);
    const LogitReply reply = shard.ask({.temperature = 0.7});
    EXPECT_NEAR(reply.tempered.max + std::log(reply.tempered.sum),
                static_cast<double>(std::log(sum)), 1e-13)
        << n;
  }
}

TEST(QueryLogits, TheBestRawIdsKnowTheirPenalties) {
  Shard shard{{2, -2, 0, 1}};
  const std::vector<LogitPenalty> seen{{0, true, 0}, {3, false, 0.5F}};
  const LogitReply reply = shard.ask({.repetition = 2, .penalties = seen, .n_top = 3});
  EXPECT_EQ(ids(reply.top), (Ids{0, 3, 2}));
  EXPECT_EQ(reply.top[0].penalised, 1);
  EXPECT_EQ(reply.top[1].penalised, 0.5F);
  EXPECT_EQ(reply.top[2].penalised, 0);
}

TEST(QueryLogits, ARaceAtAnyTemperatureHasAWinner) {
  Shard shard{random_logits(200, 23)};
  const auto best = std::ranges::max_element(shard.logits) - shard.logits.begin();
  for (const double temperature : {1e-300, 1e-42, 1e-20}) {
    const LogitReply reply = shard.ask({.temperature = temperature, .noise = true, .seed = 6});
    EXPECT_EQ(ids(reply.candidates), (Ids{static_cast<std::int32_t>(best)})) << temperature;
  }
  for (const double temperature : {1e20, 1e42, 1e300}) {
    const LogitReply reply = shard.ask({.temperature = temperature, .noise = true, .seed = 6});
    EXPECT_EQ(reply.candidates.size(), 1U) << temperature;
  }
}

// Trap 92, and the arithmetic of presence and frequency.
TEST(QueryLogits, RepetitionMakesEveryRepeatedLogitLessLikely) {
  Shard shard{{2, -2, 0, 1}};
  const std::vector<LogitPenalty> seen{{0, true, 0}, {1, true, 0}};
  const LogitReply reply = shard.ask({.repetition = 2, .penalties = seen, .n_candidates = 4});
  EXPECT_EQ(ids(reply.candidates), (Ids{0, 3, 2, 1}));
  EXPECT_EQ(reply.candidates[0].penalised, 1);
  EXPECT_EQ(reply.candidates[3].penalised, -4);
  EXPECT_EQ(reply.candidates[3].raw, -2);
  const LogitReply plain = shard.ask({.repetition = 1, .penalties = seen, .n_candidates = 4});
  for (const Candidate& candidate : plain.candidates) {
    EXPECT_EQ(candidate.penalised, candidate.raw);
  }
  const std::vector<LogitPenalty> both{{0, true, 0.25F}, {3, false, 4}};
  const LogitReply sub = shard.ask({.repetition = 2, .penalties = both, .n_candidates = 4});
  EXPECT_EQ(ids(sub.candidates), (Ids{0, 2, 1, 3}));
  EXPECT_EQ(sub.candidates[0].penalised, 0.75F);
  EXPECT_EQ(sub.candidates[3].penalised, -3);
}

TEST(QueryLogits, PenaltiesOfOtherShardsAreLeftAloneAndPieceBordersAreNot) {
  Shard shard{std::vector<float>(2100, 0.0F), 1000};
  const std::vector<LogitPenalty> penalties{{999, false, -9},  {1000, false, -1},
                                            {3047, false, -2}, {3048, false, -3},
                                            {3099, false, -4}, {3100, false, -9}};
  const LogitReply reply = shard.ask({.penalties = penalties, .n_candidates = 5});
  EXPECT_EQ(ids(reply.candidates), (Ids{3099, 3048, 3047, 1000, 1001}));
  EXPECT_EQ(reply.raw.sum, 2100);
  EXPECT_NEAR(reply.tempered.max + std::log(reply.tempered.sum),
              std::log(2096 + std::exp(1) + std::exp(2) + std::exp(3) + std::exp(4)), 1e-12);
}

TEST(QueryLogits, PenalisedLogitsStayFinite) {
  Shard shard{{3e38F, -3e38F, 0}};
  const std::vector<LogitPenalty> penalties{{0, true, 0}, {1, true, 0}};
  const LogitReply up = shard.ask({.repetition = 0.1F, .penalties = penalties, .n_candidates = 3});
  EXPECT_EQ(up.candidates[0].penalised, std::numeric_limits<float>::max());
  const LogitReply down = shard.ask({.repetition = 10, .penalties = penalties, .n_candidates = 3});
  EXPECT_EQ(down.candidates[2].penalised, std::numeric_limits<float>::lowest());
}

TEST(QueryLogits, IdsThatAreNotAllowedAreNeverLookedAt) {
  Shard shard{{1, std::nanf(""), 9, kInf, 0}, 10, {1, 0, 0, 0, 1}};
  const std::vector<LogitPenalty> penalties{{11, true, 0}, {12, false, -5}};
  LogitQuery query{.penalties = penalties, .temperature = 1, .n_candidates = 9, .n_top = 9};
  query.target = 12;
  for (const bool noise : {false, true}) {
    query.noise = noise;
    const LogitReply reply = shard.ask(query);
    EXPECT_EQ(reply.first_bad_id, -1);
    EXPECT_EQ(reply.candidates.size(), 2U);
    EXPECT_EQ(ids(reply.top), (Ids{10, 14}));
    EXPECT_DOUBLE_EQ(reply.raw.max + std::log(reply.raw.sum), std::log(1 + std::exp(1.0)));
    EXPECT_FALSE(reply.target);
  }
}

TEST(QueryLogits, NamesTheFirstLogitThatIsNotFinite) {
  for (const float bad : {kInf, -kInf, std::nanf("")}) {
    Shard shard{std::vector<float>(2000, 1.0F), 50};
    shard.logits[700] = bad;
    shard.logits[1900] = bad;
    EXPECT_EQ(shard.ask({}).first_bad_id, 750);
    shard.allowed[700] = 0;
    EXPECT_EQ(shard.ask({}).first_bad_id, 1950);
  }
}

TEST(QueryLogits, AShardWithNothingToSayAnswersWithEmptySets) {
  const auto expect_empty = [](const LogitReply& reply) {
    EXPECT_TRUE(reply.candidates.empty());
    EXPECT_TRUE(reply.top.empty());
    EXPECT_EQ(reply.raw.max, -kInf);
    EXPECT_EQ(reply.raw.sum, 0);
    EXPECT_EQ(reply.tempered.max, -kInf);
    EXPECT_EQ(reply.tempered.sum, 0);
    EXPECT_EQ(reply.first_bad_id, -1);
  };
  Shard none{{}, 7};
  Shard forbidden{{1, 2}, 7, {0, 0}};
  for (const bool noise : {false, true}) {
    const LogitQuery query{.temperature = 0.5, .n_candidates = 3, .noise = noise, .n_top = 2};
    expect_empty(none.ask(query));
    expect_empty(forbidden.ask(query));
  }
}

TEST(QueryLogits, AReplyIsWrittenAnewEachTime) {
  Shard shard{{1, 2, 3}, 0};
  LogitReply reply;
  shard.ask({.n_candidates = 3, .n_top = 3, .target = 2}, reply);
  EXPECT_EQ(reply.target, 3.0F);
  shard.ask({.n_candidates = 1, .target = 3}, reply);
  EXPECT_EQ(ids(reply.candidates), (Ids{2}));
  EXPECT_TRUE(reply.top.empty());
  EXPECT_FALSE(reply.target);
  shard.ask({.n_candidates = 0}, reply);
  EXPECT_TRUE(reply.candidates.empty());
}

TEST(QueryLogits, NoiseIsTheOneOfTheIdWhateverTheShard) {
  const std::vector<float> logits = random_logits(1500, 11);
  const NoiseKey key{.seed = 0x123456789abcdef0, .sequence = 3, .position = 17};
  for (const std::int32_t begin : {0, 1, 513, 1499}) {
    Shard shard{{logits.begin() + begin, logits.end()}, begin};
    const LogitReply reply = shard.ask({.temperature = 0.8,
                                        .n_candidates = 1500,
                                        .noise = true,
                                        .seed = key.seed,
                                        .sequence = 3,
                                        .position = 17});
    ASSERT_EQ(reply.candidates.size(), 1500U - static_cast<unsigned>(begin));
    for (const Candidate& candidate : reply.candidates) {
      const double x = static_cast<double>(logits[static_cast<std::size_t>(candidate.id)]) / 0.8;
      EXPECT_EQ(candidate.score, x + gumbel(uniform(key, candidate.id))) << candidate.id;
    }
  }
}

// Ids whose noise is not computed must not be ones that would have won.
TEST(QueryLogits, SkippingHopelessIdsNeverChangesTheWinner) {
  constexpr std::size_t kWidth = 2500;
  for (const double scale : {0.0, 1.0, 30.0, 900.0}) {
    for (const double temperature : {1e-10, 0.5, 1.0, 1e30}) {
      Shard shard{random_logits(kWidth, 5, scale), 3};
      for (std::uint32_t position = 0; position < 20; ++position) {
        const NoiseKey key{.seed = 9, .sequence = 0, .position = position};
        std::vector<Candidate> all;
        for (std::int32_t id = 3; id < 3 + static_cast<std::int32_t>(kWidth); ++id) {
          const float x = shard.logits[static_cast<std::size_t>(id - 3)];
          all.push_back(
              {id, x, x, static_cast<double>(x) / temperature + gumbel(uniform(key, id))});
        }
        std::stable_sort(all.begin(), all.end(),
                         [](const auto& a, const auto& b) { return a.score > b.score; });
        for (const int n : {3, 1}) {
          all.resize(static_cast<std::size_t>(n));
          const LogitReply reply = shard.ask({.temperature = temperature,
                                              .n_candidates = n,
                                              .noise = true,
                                              .seed = 9,
                                              .position = position});
          EXPECT_EQ(ids(reply.candidates), ids(all)) << scale << " " << temperature;
        }
      }
    }
  }
}

// Trap 73: no overflow, and the distribution is flat.
TEST(QueryLogits, AHugeTemperatureIsUniform) {
  Shard shard{{3e38F, -3e38F, 0, 5}};
  const LogitReply reply = shard.ask({.temperature = 1e300, .n_candidates = 4, .noise = true});
  EXPECT_EQ(reply.tempered.sum, 4);
  ASSERT_EQ(reply.candidates.size(), 4U);
  for (const Candidate& candidate : reply.candidates) EXPECT_TRUE(std::isfinite(candidate.score));
}

TEST(QueryLogits, RowsAnswerTheirOwnQueries) {
  std::vector<float> logits{1, 2, 3, 9, 8, 7};
  const std::vector<std::uint8_t> allowed(3, 1);
  const std::vector<LogitQuery> queries{{.n_candidates = 1}, {.n_candidates = 2, .target = 2}};
  std::vector<LogitReply> replies(2);
  query_logits_cpu(Tensor::borrow(logits.data(), 2, 3), {0, allowed}, queries, replies);
  EXPECT_EQ(ids(replies[0].candidates), (Ids{2}));
  EXPECT_EQ(ids(replies[1].candidates), (Ids{0, 1}));
  EXPECT_EQ(replies[1].target, 7.0F);
}

void expect_same(const std::vector<Candidate>& a, const std::vector<Candidate>& b) {
  ASSERT_EQ(ids(a), ids(b));
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].raw, b[i].raw);
    EXPECT_EQ(a[i].penalised, b[i].penalised);
    EXPECT_EQ(a[i].score, b[i].score);
  }
}

TEST(QueryLogits, ThreadsChangeNoBit) {
  constexpr std::int64_t kRows = 5, kWidth = 20011;
  std::vector<float> logits = random_logits(kRows * kWidth, 1);
  std::vector<std::uint8_t> allowed(kWidth, 1);
  allowed[4097] = 0;
  const std::vector<LogitPenalty> penalties{{20, true, 0}, {9000, false, -1}};
  std::vector<LogitQuery> queries(kRows);
  queries[0] = {.n_candidates = 40, .n_top = 3};
  queries[1] = {.temperature = 0.8, .noise = true, .seed = 3, .position = 9};
  queries[2] = {.repetition = 2, .penalties = penalties, .temperature = 1, .n_candidates = 9000};
  queries[3] = {.temperature = 2, .n_candidates = 0, .n_bounds = 2};
  queries[3].bounds = {LogitBound{1.5F, 6}, LogitBound{logits[3 * kWidth + 7000], 7007}};
  queries[4] = {.temperature = 3, .n_candidates = 16, .noise = true, .seed = 3, .target = 20000};
  const Tensor rows = Tensor::borrow(logits.data(), kRows, kWidth);
  std::vector<LogitReply> alone(kRows), shared(kRows);
  query_logits_cpu(rows, {7, allowed}, queries, alone);
  for (const int n_threads : {2, 3, 7}) {
    ThreadPool threads(n_threads);
    LogitQueries(threads).run(rows, {7, allowed}, queries, shared);
    for (std::size_t i = 0; i < kRows; ++i) {
      SCOPED_TRACE(i);
      expect_same(shared[i].candidates, alone[i].candidates);
      expect_same(shared[i].top, alone[i].top);
      EXPECT_EQ(shared[i].raw.sum, alone[i].raw.sum);
      EXPECT_EQ(shared[i].tempered.max, alone[i].tempered.max);
      EXPECT_EQ(shared[i].tempered.sum, alone[i].tempered.sum);
      EXPECT_EQ(shared[i].before, alone[i].before);
      EXPECT_EQ(shared[i].target, alone[i].target);
    }
  }
}

TEST(QueryLogits, ManyCandidatesAreThoseOfAFullSort) {
  for (const double scale : {0.0, 1.0, 50.0}) {
    std::vector<float> logits = random_logits(9001, 4, scale);
    for (float& x : logits) x = std::round(x);  // ties, within pieces and across
    Shard shard{logits, 13};
    Ids order(logits.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = 13 + static_cast<std::int32_t>(i);
    std::stable_sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) {
      return logits[static_cast<std::size_t>(a - 13)] > logits[static_cast<std::size_t>(b - 13)];
    });
    for (const int n : {1, 2, 40, 64, 65, 500, 9000, 9001, 99999}) {
      const std::size_t expected = std::min<std::size_t>(static_cast<std::size_t>(n), 9001);
      const LogitReply reply = shard.ask({.n_candidates = n, .n_top = n});
      const Ids best(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(expected));
      EXPECT_EQ(ids(reply.candidates), best) << n << " " << scale;
      EXPECT_EQ(ids(reply.top), best) << n << " " << scale;
    }
  }
}

TEST(QueryLogits, MassBeforeABoundIsThatOfTheIdsThatRankBeforeIt) {
  std::vector<float> logits = random_logits(9001, 6, 2);
  for (float& x : logits) x = std::round(4 * x) / 4;  // ties
  Shard shard{logits, 100};
  shard.allowed[4500] = 0;
  const std::vector<LogitPenalty> penalties{{150, false, -3}, {6000, false, 2}};
  for (const double temperature : {0.5, 1.0, 3.0}) {
    LogitQuery query{.penalties = penalties, .temperature = temperature, .n_candidates = 0};
    query.n_bounds = 4;
    // In the shard's middle, before it, behind it, and above all.
    query.bounds = {LogitBound{1.25F, 5000}, LogitBound{0.5F, 3}, LogitBound{0.5F, 90000},
                    LogitBound{99, 200}};
    const LogitReply reply = shard.ask(query);
    std::array<long double, 4> before{};
    for (std::int32_t id = 100; id < 9101; ++id) {
      if (id == 4600) continue;
      float x = logits[static_cast<std::size_t>(id - 100)];
      if (id == 150) x += 3;
      if (id == 6000) x -= 2;
      const long double weight = std::exp(static_cast<long double>(x) / temperature -
                                          static_cast<long double>(reply.tempered.max));
      for (std::size_t j = 0; j < 4; ++j) {
        const LogitBound& bound = query.bounds[j];
        if (x > bound.penalised || (x == bound.penalised && id < bound.id)) before[j] += weight;
      }
    }
    for (std::size_t j = 0; j < 4; ++j) {
      const auto truth = static_cast<double>(before[j]);
      EXPECT_NEAR(reply.before[j], truth, 1e-13 * truth) << j;
    }
    EXPECT_GT(reply.before[2], reply.before[1]);  // the ties
    EXPECT_EQ(reply.before[3], 0);
  }
}

TEST(QueryLogits, MaximaComeWithoutTheSumsThatNobodyWants) {
  Shard shard{random_logits(3000, 2)};
  LogitQuery query{.temperature = 2};
  const LogitReply full = shard.ask(query);
  query.raw_sum = query.tempered_sum = false;
  const LogitReply bare = shard.ask(query);
  EXPECT_EQ(bare.raw.max, full.raw.max);
  EXPECT_EQ(bare.tempered.max, full.tempered.max);
  EXPECT_EQ(ids(bare.candidates), ids(full.candidates));
}

TEST(QueryLogits, MisuseIsAFailedCheck) {
  Shard shard{{1, 2, 3}};
  EXPECT_THROW(shard.ask({.temperature = 0, .noise = true}), Error);
  EXPECT_THROW(shard.ask({.temperature = 1, .noise = true, .position = 1ULL << 32}), Error);
  EXPECT_THROW(shard.ask({.n_bounds = 5}), Error);
  shard.allowed.pop_back();
  EXPECT_THROW(shard.ask({}), Error);
}

}  // namespace
}  // namespace shardlm
