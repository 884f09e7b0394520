#include "study/wire_quality.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "tests/parallel/golden_case.h"
#include "tests/parallel/model_ranks.h"

namespace shardlm {
namespace {

using Logits = std::vector<float>;

/// The definitions, over whole rows a and b [n, width].
WireQuality by_definition(std::span<const float> a, std::span<const float> b, std::size_t width,
                          std::span<const std::int32_t> ids) {
  WireQuality q;
  const std::size_t n = ids.size() - 1;
  double same = 0, nats_a = 0, nats_b = 0;
  for (std::size_t t = 0; t < n; ++t) {
    const auto x = a.subspan(t * width, width), y = b.subspan(t * width, width);
    long double sum_x = 0, sum_y = 0;
    for (std::size_t i = 0; i < width; ++i) {
      sum_x += std::exp(static_cast<long double>(x[i]));
      sum_y += std::exp(static_cast<long double>(y[i]));
    }
    for (std::size_t i = 0; i < width; ++i) {
      const long double p = std::exp(static_cast<long double>(x[i])) / sum_x;
      const long double r = std::exp(static_cast<long double>(y[i])) / sum_y;
      q.kl += static_cast<double>(p * std::log(p / r)) / static_cast<double>(n);
      q.max_logit_difference = std::max(q.max_logit_difference, std::abs(double{x[i]} - y[i]));
    }
    same += std::max_element(x.begin(), x.end()) - x.begin() ==
            std::max_element(y.begin(), y.end()) - y.begin();
    const auto next = static_cast<std::size_t>(ids[t + 1]);
    nats_a -= static_cast<double>(x[next] - std::log(sum_x));
    nats_b -= static_cast<double>(y[next] - std::log(sum_y));
  }
  q.top1_agreement = same / static_cast<double>(n);
  q.perplexity = std::exp(nats_a / static_cast<double>(n));
  q.perplexity_change = std::exp((nats_b - nats_a) / static_cast<double>(n)) - 1;
  return q;
}

void expect_same(const WireQuality& found, const WireQuality& expected) {
  EXPECT_EQ(found.max_logit_difference, expected.max_logit_difference);
  EXPECT_EQ(found.top1_agreement, expected.top1_agreement);
  EXPECT_NEAR(found.kl, expected.kl, 1e-12 + 1e-6 * expected.kl);
  EXPECT_NEAR(found.perplexity, expected.perplexity, 1e-9 * expected.perplexity);
  EXPECT_NEAR(found.perplexity_change, expected.perplexity_change, 1e-10);
}

// Rows cut between `cuts`.
std::vector<std::vector<LogitComparison>> cut(const Logits& a, const Logits& b, std::size_t width,
                                              const std::vector<std::size_t>& cuts,
                                              const std::vector<std::int32_t>& ids) {
  std::vector<std::vector<LogitComparison>> parts;
  for (std::size_t r = 0; r + 1 < cuts.size(); ++r) {
    auto& part = parts.emplace_back();
    for (std::size_t t = 0; t + 1 < ids.size(); ++t) {
      const std::size_t at = t * width + cuts[r], n = cuts[r + 1] - cuts[r];
      part.push_back(compare_logits(std::span(a).subspan(at, n), std::span(b).subspan(at, n),
                                    static_cast<std::int32_t>(cuts[r]), ids[t + 1]));
    }
  }
  return parts;
}

TEST(WireQuality, PartsOfAVocabularyMakeTheWhole) {
  constexpr std::size_t kWidth = 11;
  const std::vector<std::int32_t> ids = {0, 10, 3, 7, 0};
  Logits a, b;
  for (std::size_t i = 0; i < kWidth * (ids.size() - 1); ++i) {
    const auto x = static_cast<double>(i);
    a.push_back(static_cast<float>(5 * std::sin(3 * x) - 40));
    b.push_back(static_cast<float>(a.back() + 0.7 * std::cos(x * x)));
  }
  a[2] = a[9] = 30;  // equal likeliest ids: the lower one
  b[2] = 29, b[9] = 31;
  const WireQuality expected = by_definition(a, b, kWidth, ids);
  EXPECT_LT(expected.top1_agreement, 1);
  for (const std::vector<std::size_t>& cuts :
       std::vector<std::vector<std::size_t>>{{0, 11}, {0, 5, 11}, {0, 4, 8, 11}, {0, 9, 9, 11}}) {
    expect_same(join_comparisons(cut(a, b, kWidth, cuts, ids)), expected);
  }
}

TEST(WireQuality, OfEqualLogitsIsPerfect) {
  const Logits a = {1.5F, -3, 0.25F, 7, 0, 1e-3F};
  const WireQuality q = join_comparisons(cut(a, a, 3, {0, 1, 3}, {0, 2, 1}));
  EXPECT_EQ(q.max_logit_difference, 0);
  EXPECT_EQ(q.top1_agreement, 1);
  EXPECT_EQ(q.kl, 0);
  EXPECT_EQ(q.perplexity_change, 0);
}

TEST(WireQuality, WhatIsNotFiniteShows) {
  const Logits a = {1, 2}, b = {1, NAN};
  const WireQuality q = join_comparisons(cut(a, b, 2, {0, 1, 2}, {0, 1}));
  EXPECT_TRUE(std::isnan(q.max_logit_difference));
  EXPECT_TRUE(std::isnan(q.kl));
}

TEST(WireQuality, IsALine) {
  WireQuality q;
  q.asked = "--wire int8";
  q.tokens = 127;
  q.decoded = 16;
  q.max_logit_difference = 0.123;
  q.top1_agreement = 0.992;
  q.kl = 1.32e-4;
  q.perplexity_change = 0.0002;
  EXPECT_EQ(quality_text(q),
            "quality of --wire int8: max |dlogit| 0.12, top-1 99.2 %, KL 1.3e-04, perplexity "
            "+0.02 % (127 tokens of the fixed text, the last 16 one by one)");
  q.text = false;
  EXPECT_THAT(quality_text(q), testing::HasSubstr("of no language: ids drawn at random"));
}

TEST(WireQuality, IdsFitTheModelAndTheCache) {
  const QualityText drawn = quality_ids(nullptr, 100, 40);
  EXPECT_FALSE(drawn.text);
  EXPECT_EQ(drawn.ids.size(), 41U);  // the last is only predicted
  for (const std::int32_t id : drawn.ids) EXPECT_TRUE(id >= 0 && id < 100);
  EXPECT_EQ(quality_ids(nullptr, 100, 5000).ids.size(), 129U);

  const auto demo = Tokenizer::load(std::filesystem::path(SHARDLM_MODELS) / "demo");
  const QualityText text = quality_ids(demo.get(), demo->id_limit(), 5000);
  EXPECT_TRUE(text.text);
  EXPECT_EQ(text.ids.size(), 129U);
  EXPECT_THAT(demo->decode(text.ids), testing::StartsWith("It is a truth universally"));
  EXPECT_FALSE(quality_ids(demo.get(), 10, 5000).text);  // ids that the model does not have
}

struct Measured {
  WireQuality quality;
  Logits logits;  ///< [2 * tokens, ids]: as the layers report them, unrounded first
};

// A model's quality on ranks with these rules.
Measured measure(const std::string& name, int size, const std::string& rules,
                 const std::vector<std::int32_t>& ids) {
  Measured measured;
  ThreadRankOptions options;
  options.allreduce = rules;
  run_ranks(
      size,
      [&](int rank, Communicator& comm, Backend& backend) {
        const auto folder = golden_folder() / name;
        const ModelConfig config = read_model_config(folder);
        const Checkpoint checkpoint = Checkpoint::open(folder);
        CheckpointWeights weights(checkpoint, config);
        ActivationDump dump(backend, comm);
        const Context context{backend, comm, dump};
        const auto model = make_model(config, weights, context);
        Executor executor(
            context, *model, model->make_cache(2, 16),
            std::vector<std::uint8_t>(static_cast<std::size_t>(config.vocab_size), 1));
        QualityText text;
        if (rank == 0) text.ids = ids;
        const auto quality =
            measure_wire_quality(context, executor, model->vocab_ids(), text, {.block_tokens = 16});
        EXPECT_EQ(quality.has_value(), rank == 0);
        if (rank == 0) measured = {*quality, dump.at("logits").values};
      },
      options);
  return measured;
}

std::vector<std::int32_t> some_ids() {
  std::vector<std::int32_t> ids;
  for (std::int32_t i = 0; i < 29; ++i) ids.push_back((i * i + 7 * i) % 101);
  return ids;
}

class Quality : public testing::TestWithParam<int> {};

TEST_P(Quality, IsPerfectWhereNothingIsRounded) {
  const WireQuality q = measure("base", GetParam(), "ring", some_ids()).quality;
  EXPECT_EQ(q.tokens, 28);
  EXPECT_EQ(q.decoded, 14);
  EXPECT_EQ(q.max_logit_difference, 0);
  EXPECT_EQ(q.top1_agreement, 1);
  EXPECT_EQ(q.kl, 0);
  EXPECT_EQ(q.perplexity_change, 0);
}

TEST_P(Quality, OfRoundedSumsIsThatOfTheWholeLogits) {
  const std::vector<std::int32_t> ids = some_ids();
  for (const auto& [rounded, plain, epsilon] :
       std::vector<std::tuple<const char*, const char*, double>>{
           {"ring:bf16", "ring", 0x1p-9},
           {"direct:f16", "direct", 0x1p-12},
           {"shm-twoshot:int8", "shm-twoshot", 1.0 / 254},
           // Only what decoding sums is rounded: it shows too.
           {"decode=shm-oneshot:bf16,shm-oneshot", "shm-oneshot", 0x1p-9}}) {
    SCOPED_TRACE(rounded);
    const Measured m = measure("base", GetParam(), rounded, ids);
    const auto half = static_cast<std::ptrdiff_t>(m.logits.size() / 2);
    const Logits a(m.logits.begin(), m.logits.begin() + half),
        b(m.logits.begin() + half, m.logits.end());
    expect_same(m.quality, by_definition(a, b, 101, ids));
    EXPECT_GT(m.quality.max_logit_difference, 0);
    // As expect_near() does: 5 sums, each rounded on the way there and back, of every rank.
    const double scale = std::abs(*std::max_element(
        a.begin(), a.end(), [](float x, float y) { return std::abs(x) < std::abs(y); }));
    EXPECT_LT(m.quality.max_logit_difference, 4 * std::sqrt(10 * GetParam()) * epsilon * scale);
    EXPECT_GT(m.quality.kl, 0);
    // Hoeffding's lemma, since log(p / q) varies by at most twice the difference.
    EXPECT_LE(m.quality.kl, std::pow(m.quality.max_logit_difference, 2) / 2);
    // The reference is what the same algorithm gives without rounding.
    const Logits reference = measure("base", GetParam(), plain, ids).logits;
    EXPECT_TRUE(std::equal(a.begin(), a.end(), reference.begin()));
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, Quality, testing::Values(2, 3));

}  // namespace
}  // namespace shardlm
