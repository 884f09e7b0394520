#include "engine/sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "base/error.h"
#include "base/philox.h"
#include "tests/unit/engine/sharded_row.h"

namespace shardlm {
namespace {

using testing::HasSubstr;

// ---- greedy ---------------------------------------------------------------------------------

// Trap 73.
TEST(Sampler, TemperatureZeroIsTheLowestOfTheBestIdsAndUsesNoRandomness) {
  const std::vector<float> logits{1, 4, 2, 4, 4};
  for (const double temperature : {0.0, -0.0, 1e-40, 5e-324}) {
    for (const std::uint64_t seed : {0U, 1U, 2U}) {
      SamplingParams params{.temperature = temperature, .top_k = 2, .top_p = 0.3};
      params.seed = seed;
      validate(params);
      for (int ranks = 1; ranks <= 7; ++ranks) {
        EXPECT_EQ(draw_once(logits, params, 3, ranks).id, 1);
      }
      EXPECT_FALSE(Sampler(params, 0, {}, 5).query(0).noise);
    }
  }
}

TEST(Sampler, ATinyTemperatureFindsTheBestAndAHugeOneIsFlat) {
  EXPECT_EQ(draw_once({1, 4, 2, 4.0001F, 3}, {.temperature = 1e-10}).id, 3);
  EXPECT_EQ(draw_once({1, 4, 2, 4.0001F, 3}, {.temperature = 1e-10, .top_p = 0.9}).id, 3);
  for (const double top_p : {1.0, 0.9999}) {
    const auto counts =
        histogram({3e38F, -3e38F, 0, 5}, {.temperature = 1e200, .top_p = top_p}, 4000);
    ASSERT_EQ(counts.size(), 4U);
    for (const auto& [id, count] : counts) EXPECT_NEAR(count, 1000, 120) << id;  // > 4 sigma
  }
}

// Trap 63.
TEST(Sampler, TopKOfTheWholeVocabularyIsNoCut) {
  const std::vector<float> logits = random_logits(5, 3);
  for (std::uint64_t position = 0; position < 200; ++position) {
    const std::int32_t uncut = draw_once(logits, {}, position).id;
    for (const std::int64_t top_k : {5L, 6L, 50L, 9999999L, -1L, 1L << 31}) {
      EXPECT_EQ(draw_once(logits, {.top_k = top_k}, position, 3).id, uncut) << top_k;
    }
  }
}

TEST(Sampler, CutsThatKeepEverythingGiveTheTokenOfNoCut) {
  const std::vector<float> logits = random_logits(300, 3);
  for (std::uint64_t position = 0; position < 50; ++position) {
    const std::int32_t uncut = draw_once(logits, {.temperature = 1.5}, position).id;
    EXPECT_EQ(draw_once(logits, {.temperature = 1.5, .min_p = 1e-300}, position, 3).id, uncut);
    EXPECT_EQ(draw_once(logits, {.temperature = 1.5, .top_p = 1 - 1e-16}, position, 2).id, uncut);
  }
}

// ---- penalties ------------------------------------------------------------------------------

TEST(Sampler, RepetitionTakesPromptAndContinuationOnce) {
  Sampler sampler({.repetition_penalty = 2}, 0, Ids{3, 1, 3}, 9);
  sampler.accept(5);
  sampler.accept(1);
  sampler.accept(5);
  const LogitQuery query = sampler.query(0);
  ASSERT_EQ(query.penalties.size(), 3U);
  EXPECT_EQ(query.repetition, 2);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(query.penalties[i].id, (Ids{1, 3, 5})[i]);
    EXPECT_TRUE(query.penalties[i].repeated);
    EXPECT_EQ(query.penalties[i].subtract, 0);
  }
}

TEST(Sampler, PresenceAndFrequencyTakeTheContinuationAlone) {
  Sampler sampler({.presence_penalty = 0.5, .frequency_penalty = 0.25}, 0, Ids{3, 1}, 9);
  EXPECT_TRUE(sampler.query(0).penalties.empty());
  for (const std::int32_t id : {5, 1, 5, 5}) sampler.accept(id);
  const LogitQuery query = sampler.query(0);
  ASSERT_EQ(query.penalties.size(), 2U);
  EXPECT_EQ(query.penalties[0].id, 1);
  EXPECT_EQ(query.penalties[0].subtract, 0.75F);
  EXPECT_EQ(query.penalties[1].id, 5);
  EXPECT_EQ(query.penalties[1].subtract, 1.25F);
  EXPECT_FALSE(query.penalties[1].repeated);
}

// Trap 92, to the end: logits [2, -2, 0, 1] with 0 and 1 seen become [1, -4, 0, 1].
TEST(Sampler, GreedyFollowsThePenalisedLogits) {
  const std::vector<float> logits{2, -2, 0, 1};
  EXPECT_EQ(draw_once(logits, {.temperature = 0, .repetition_penalty = 2}, 0, 2, {0, 1}).id, 0);
  EXPECT_EQ(draw_once(logits, {.temperature = 0, .repetition_penalty = 2.1}, 0, 2, {0, 1}).id, 3);
}

// ---- log-probabilities ----------------------------------------------------------------------

TEST(Sampler, LogprobsAreThoseOfTheRawLogits) {
  const std::vector<float> logits{std::log(.1F), std::log(.2F), std::log(.3F), std::log(.4F)};
  SamplingParams params{.temperature = 0, .repetition_penalty = 9, .logprobs = 2};
  const Sampled sampled = draw_once(logits, params, 0, 2, {3, 2});
  EXPECT_EQ(sampled.id, 1);  // log .3 and log .4 times 9 lie below log .2
  EXPECT_NEAR(sampled.logprob, std::log(.2), 1e-6);
  ASSERT_EQ(sampled.top.size(), 2U);
  EXPECT_EQ(sampled.top[0].id, 3);
  EXPECT_NEAR(sampled.top[0].logprob, std::log(.4), 1e-6);
  EXPECT_EQ(sampled.top[1].id, 2);
}

TEST(Sampler, TopLogprobsAreCutToTheAllowedVocabularyTiesByTheLowestId) {
  for (int ranks = 1; ranks <= 5; ++ranks) {
    ShardedRow row({1, 2, 2, 7, 2}, ranks);
    row.allowed[3] = 0;
    Sampler sampler({.temperature = 0, .logprobs = std::numeric_limits<int>::max()}, 0, {}, 5);
    const Sampled sampled = row.draw(sampler, 0);
    ASSERT_EQ(sampled.top.size(), 4U);
    const Ids expected{1, 2, 4, 0};
    for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(sampled.top[i].id, expected[i]);
    EXPECT_NEAR(sampled.top[3].logprob, 1 - std::log(3 * std::exp(2.0) + std::exp(1.0)), 1e-14);
  }
}

TEST(Sampler, TargetLogprobJoinsTheRanks) {
  ShardedRow row({std::log(.1F), std::log(.2F), std::log(.3F), std::log(.4F)}, 3);
  LogitQuery query;
  query.target = 2;
  EXPECT_NEAR(target_logprob(row.ask(query), 0, 0), std::log(.3), 1e-6);
  row.allowed[2] = 0;
  EXPECT_THROW(target_logprob(row.ask(query), 0, 0), Error);
}

// ---- every rank count -----------------------------------------------------------------------

std::vector<SamplingParams> all_kinds() {
  return {{.temperature = 0},
          {},
          {.temperature = 0.7},
          {.top_k = 1},
          {.temperature = 1.3, .top_k = 40},
          {.top_p = 0.9},
          {.temperature = 2, .top_p = 0.99},
          {.min_p = 0.05},
          {.temperature = 0.9, .top_k = 100, .top_p = 0.8, .min_p = 0.02},
          {.temperature = 0.8,
           .top_p = 0.95,
           .repetition_penalty = 1.2,
           .presence_penalty = 0.4,
           .frequency_penalty = 0.1},
          {.temperature = 0, .repetition_penalty = 1.5, .presence_penalty = -1}};
}

TEST(Sampler, TokensAndLogprobsAreEqualAtEveryRankCount) {
  for (SamplingParams params : all_kinds()) {
    params.logprobs = 3;
    params.seed = 77;
    for (std::uint32_t trial = 0; trial < 4; ++trial) {
      const std::vector<float> logits = random_logits(trial % 2 == 0 ? 503 : 40, trial + 1);
      const Ids prompt{1, 7, 39};
      std::vector<Sampled> one;
      for (const int ranks : {1, 2, 3, 5, 7, 64}) {
        ShardedRow row(logits, ranks);
        row.allowed[5] = row.allowed[39] = 0;
        Sampler sampler(params, 4, prompt, vocabulary(logits));
        for (std::uint64_t position = 0; position < 8; ++position) {
          const Sampled sampled = row.draw(sampler, position);
          sampler.accept(sampled.id);
          if (ranks == 1) one.push_back(sampled);
          const Sampled& expected = one[position];
          ASSERT_EQ(sampled.id, expected.id) << ranks;
          ASSERT_NEAR(sampled.logprob, expected.logprob, 1e-12);
          ASSERT_EQ(sampled.top.size(), 3U);
          for (std::size_t i = 0; i < 3; ++i) {
            ASSERT_EQ(sampled.top[i].id, expected.top[i].id);
            ASSERT_NEAR(sampled.top[i].logprob, expected.top[i].logprob, 1e-12);
          }
        }
      }
    }
  }
}

/// The token by the definition, from all logits at once.
std::int32_t token_by_definition(const std::vector<float>& logits, const SamplingParams& params,
                                 std::uint32_t position) {
  std::vector<std::int32_t> order(logits.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<std::int32_t>(i);
  const auto x = [&](std::int32_t id) {
    return static_cast<double>(logits[static_cast<std::size_t>(id)]) / params.temperature;
  };
  std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return x(a) > x(b); });
  if (params.top_k > 0)
    order.resize(std::min(order.size(), static_cast<std::size_t>(params.top_k)));
  long double total = 0, mass = 0;
  for (const std::int32_t id : order) total += std::exp(static_cast<long double>(x(id)));
  std::int32_t best = -1;
  double best_score = 0;
  for (const std::int32_t id : order) {
    const bool p_reached =
        params.top_p < 1 && mass >= static_cast<long double>(params.top_p) * total;
    const bool below_min_p = std::exp(x(id) - x(order[0])) < params.min_p;
    if (best >= 0 && (p_reached || below_min_p)) break;
    mass += std::exp(static_cast<long double>(x(id)));
    const double score = x(id) + gumbel(uniform({params.seed, 0, position}, id));
    if (best < 0 || score > best_score) {
      best = id;
      best_score = score;
    }
  }
  return best;
}

TEST(Sampler, AskingForMoreCandidatesEndsInTheExactToken) {
  int most_asks = 0;
  for (const SamplingParams& params :
       {SamplingParams{.temperature = 3, .top_p = 0.5},
        SamplingParams{.temperature = 5, .top_p = 0.95},
        SamplingParams{.temperature = 2, .top_p = 0.999, .min_p = 1e-3},
        SamplingParams{.temperature = 1, .min_p = 1e-4}, SamplingParams{.top_p = 0.3}}) {
    const std::vector<float> logits = random_logits(1000, 21);
    for (const int ranks : {1, 2, 7}) {
      for (std::uint32_t position = 0; position < 10; ++position) {
        ShardedRow row(logits, ranks);
        Sampler sampler(params, 0, {}, 1000);
        ASSERT_EQ(row.draw(sampler, position).id, token_by_definition(logits, params, position));
        most_asks = std::max(most_asks, row.asks);
        ASSERT_EQ(row.draw(sampler, 99).id, token_by_definition(logits, params, 99));
      }
    }
  }
  EXPECT_GE(most_asks, 3);
  EXPECT_LE(most_asks, 7);
}

// A nucleus too large to list is not listed: few candidates go over the wire, in few rounds.
TEST(Sampler, AFlatDistributionIsDecidedByARace) {
  for (const double scale : {0.0, 0.5}) {
    const std::vector<float> logits = random_logits(6000, 5, scale);
    for (const SamplingParams& params :
         {SamplingParams{.top_p = 0.95}, SamplingParams{.top_p = 0.2},
          SamplingParams{.top_p = 0.9, .min_p = 0.1}, SamplingParams{.min_p = 0.05}}) {
      for (const int ranks : {1, 3}) {
        ShardedRow row(logits, ranks);
        Sampler sampler(params, 0, {}, 6000);
        int asks = 0;
        for (std::uint32_t position = 0; position < 10; ++position) {
          ASSERT_EQ(row.draw(sampler, position).id, token_by_definition(logits, params, position));
          asks += row.asks;
        }
        EXPECT_LE(asks, 10 * 4) << params.top_p;
        EXPECT_LE(sampler.query(20).n_candidates, 64);
      }
    }
  }
}

TEST(Sampler, LogprobsAreKnownOnlyIfAskedFor) {
  EXPECT_TRUE(std::isnan(draw_once({1, 2, 3}, {.temperature = 0}).logprob));
  Sampler plain({.top_k = 4}, 0, {}, 9), nucleus({.top_p = 0.9, .logprobs = 0}, 0, {}, 9);
  EXPECT_FALSE(plain.query(0).raw_sum);
  EXPECT_FALSE(plain.query(0).tempered_sum);
  EXPECT_TRUE(nucleus.query(0).raw_sum);
  EXPECT_TRUE(nucleus.query(0).tempered_sum);
}

TEST(Sampler, TopKNeedsOneAskOnly) {
  const std::vector<float> logits = random_logits(2000, 8);
  for (const int ranks : {1, 2, 7, 64}) {
    ShardedRow row(logits, ranks);
    const SamplingParams params{.temperature = 4, .top_k = 150, .top_p = 0.98};
    Sampler sampler(params, 0, {}, 2000);
    EXPECT_EQ(row.draw(sampler, 5).id, token_by_definition(logits, params, 5));
    EXPECT_EQ(row.asks, 1);
  }
}

// ---- draws ----------------------------------------------------------------------------------

/// Pearson's statistic of counts against probabilities that need not be normalised.
double chi_square(const std::map<std::int32_t, int>& counts, const std::vector<double>& mass) {
  double total_mass = 0, total = 0, statistic = 0;
  for (const double m : mass) total_mass += m;
  for (const auto& [id, count] : counts) total += count;
  for (std::size_t id = 0; id < mass.size(); ++id) {
    const double expected = total * mass[id] / total_mass;
    const auto found = counts.find(static_cast<std::int32_t>(id));
    const double count = found == counts.end() ? 0 : found->second;
    if (expected == 0) {
      EXPECT_EQ(count, 0) << id;
      continue;
    }
    statistic += (count - expected) * (count - expected) / expected;
  }
  return statistic;
}

// Quantiles 0.999 of chi-square: 9 degrees of freedom 27.88, 3: 16.27.
TEST(Sampler, DrawsFollowTheSoftmax) {
  std::vector<double> mass;
  std::vector<float> logits;
  for (int i = 0; i < 10; ++i) {
    mass.push_back(1 + i * i);
    logits.push_back(0.5F * static_cast<float>(std::log(mass.back())));
  }
  const auto counts = histogram(logits, {.temperature = 0.5, .seed = 2024}, 60000);
  EXPECT_LT(chi_square(counts, mass), 27.88);
}

TEST(Sampler, DrawsFollowTheSoftmaxOfWhatTheCutsKeep) {
  std::vector<double> mass{0.05, 0.3, 0.1, 0.25, 0.02, 0.2, 0.08};
  std::vector<float> logits;
  for (const double m : mass) logits.push_back(static_cast<float>(std::log(m)));
  const auto counts = histogram(logits, {.top_k = 5, .top_p = 0.85, .seed = 1}, 20000);
  // Top-k 5 leaves .93, of which .7905 are asked for: .3 .25 .2 .1 remain.
  EXPECT_LT(chi_square(counts, {0, 0.3, 0.1, 0.25, 0, 0.2, 0}), 16.27);
}

TEST(Sampler, ADrawDependsOnSeedSequenceAndPosition) {
  const std::vector<float> logits(1000, 0.0F);
  const auto draw = [&](std::uint64_t seed, std::uint64_t sequence, std::uint64_t position) {
    ShardedRow row(logits, 2);
    SamplingParams params;
    params.seed = seed;
    Sampler sampler(params, sequence, {}, 1000);
    return row.draw(sampler, position).id;
  };
  const std::int32_t id = draw(1, 2, 3);
  EXPECT_EQ(draw(1, 2, 3), id);
  EXPECT_NE(draw(2, 2, 3), id);
  EXPECT_NE(draw(1, 3, 3), id);
  EXPECT_NE(draw(1, 2, 4), id);
}

// Rows of a batch share one call: a sequence's tokens are those it has alone (trap 18).
TEST(Sampler, ASequenceInABatchDrawsAsItDoesAlone) {
  constexpr std::size_t kWidth = 200;
  std::vector<float> batch;
  for (std::uint32_t j = 0; j < 3; ++j) {
    for (const float x : random_logits(kWidth, j)) batch.push_back(x);
  }
  const std::vector<std::uint8_t> allowed(kWidth, 1);
  for (SamplingParams params : all_kinds()) {
    params.logprobs = 0;
    std::vector<Sampler> samplers;
    for (std::uint64_t j = 0; j < 3; ++j) samplers.emplace_back(params, j, Ids{2}, kWidth);
    for (std::uint64_t position = 0; position < 10; ++position) {
      std::vector<LogitQuery> queries;
      for (Sampler& sampler : samplers) queries.push_back(sampler.query(position));
      std::vector<LogitReply> replies(3);
      query_logits_cpu(Tensor::borrow(batch.data(), 3, kWidth), {0, allowed}, queries, replies);
      for (std::size_t j = 0; j < 3; ++j) {
        const auto sampled = samplers[j].choose(std::span(&replies[j], 1));
        Sampler alone(params, j, Ids{2}, kWidth);
        ShardedRow row(random_logits(kWidth, static_cast<std::uint32_t>(j)), 1);
        const Sampled expected = row.draw(alone, position);
        if (!sampled) continue;  // asks again: the others go on
        EXPECT_EQ(sampled->id, expected.id);
        EXPECT_EQ(sampled->logprob, expected.logprob);
      }
    }
  }
}

// ---- what ends a run ------------------------------------------------------------------------

TEST(Sampler, ALogitThatIsNotFiniteEndsTheRun) {
  std::vector<float> logits(50, 1.0F);
  logits[30] = std::nanf("");
  logits[41] = std::numeric_limits<float>::infinity();
  for (const int ranks : {1, 3, 64}) {
    ShardedRow row(logits, ranks);
    Sampler sampler({}, 6, {}, 50);
    try {
      row.draw(sampler, 12);
      FAIL();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::bug);
      EXPECT_THAT(error.what(), HasSubstr("sequence 6"));
      EXPECT_THAT(error.what(), HasSubstr("position 12"));
      EXPECT_THAT(error.what(), HasSubstr("id 30"));
    }
  }
}

TEST(Sampler, NothingAllowedEndsTheRun) {
  for (const SamplingParams& params : all_kinds()) {
    ShardedRow row({1, 2, 3}, 2);
    row.allowed.assign(3, 0);
    Sampler sampler(params, 0, {}, 3);
    EXPECT_THROW(row.draw(sampler, 0), Error);
  }
}

}  // namespace
}  // namespace shardlm
