// Noise: the device draws the very id that the CPU draws.
#include "tests/gpu/kernels/query_logits_case.h"

#if defined(SHARDLM_TEST_EMULATED)
#include "backend/cuda/kernels/logit_score.h"  // device functions, callable when emulated
#endif

namespace shardlm::cuda {
namespace {

class LogitNoise : public KernelTest {};
SHARDLM_EVERY_THREAD_ORDER(LogitNoise);

TEST_P(LogitNoise, DrawsTheIdsThatTheCpuDraws) {
  LogitCase one{.width = 777, .queries = {}, .begin = 1001};
  for (std::uint64_t i = 0; i < 40; ++i) {
    one.queries.push_back({.temperature = 0.8 + 0.015 * static_cast<double>(i),
                           .noise = true,
                           .seed = i * 0x9E3779B97F4A7C15U,
                           .sequence = i << (i % 60),
                           .position = i * 70000000});
  }
  one.logits = normal_logits(one.rows(), one.width, 21, 1);
  one.allowed[300] = 0;
  std::vector<std::int32_t> ids;
  for (const LogitReply& reply : ask_and_compare(stream, one)) {
    ids.push_back(reply.candidates.front().id);
  }
  std::sort(ids.begin(), ids.end());
  EXPECT_GT(std::unique(ids.begin(), ids.end()) - ids.begin(), 20);  // it is no constant
}

// Whole warps whose rough scores overflow, are not numbers or lie far apart.
TEST_P(LogitNoise, RoughScoresNeverLoseTheBest) {
  LogitCase one{.width = 300, .queries = {}};
  for (const double scale : {0.0, 1e-3, 100.0, 1e6, 1e20, 3e37}) {
    for (const double temperature : {1e-5, 0.03, 1.0, 1e3, 1e30}) {
      one.queries.push_back({.temperature = temperature, .noise = true, .seed = 4});
      const auto row = normal_logits(1, one.width, 22, scale);
      one.logits.insert(one.logits.end(), row.begin(), row.end());
    }
  }
  for (float& logit : one.logits) logit = std::clamp(logit, -kLargest, kLargest);
  ask_and_compare(stream, one);
}

// The temperature's inverse does not even exist as a float.
TEST_P(LogitNoise, TemperatureOutsideTheFloatRange) {
  LogitCase one{.width = 200,
                .queries = {{.temperature = 1e-42, .noise = true, .seed = 6},
                            {.temperature = 1e42, .noise = true, .seed = 6}}};
  one.logits = normal_logits(2, one.width, 23);
  one.logits[17] = 0;
  ask_and_compare(stream, one);
}

TEST_P(LogitNoise, LongListsWithPenalties) {
  const std::vector<LogitPenalty> penalties = {{3, true, 0.5F}, {64, false, -2}, {299, true, 0}};
  LogitCase one{.width = 300, .queries = {}};
  for (const int n : {2, 64, 65, 299, 300}) {
    one.queries.push_back({.repetition = 1.2F,
                           .penalties = penalties,
                           .temperature = 1.1,
                           .n_candidates = n,
                           .noise = true,
                           .seed = 8,
                           .n_top = n / 2});
  }
  one.logits = normal_logits(one.rows(), one.width, 24);
  ask_and_compare(stream, one);
}

#if defined(SHARDLM_TEST_EMULATED)

TEST(LogitNoiseBits, UniformNumbersAreThoseOfTheHost) {
  std::mt19937_64 random(31);
  for (int i = 0; i < 2000; ++i) {
    DeviceLogitQuery query{};
    query.seed = random();
    query.sequence = random();
    query.position = static_cast<std::uint32_t>(random());
    const auto id = static_cast<std::int32_t>(random() & 0x7FFFFFFF) >> (i % 31);
    const double u = static_cast<double>(uniform_bits(query, id)) * 0x1p-53;
    ASSERT_EQ(u, uniform({query.seed, query.sequence, query.position}, id)) << id;
  }
}

TEST(LogitNoiseBits, PenalisedLogitsAreThoseOfFloatArithmetic) {
  std::mt19937 random(32);
  const auto any_float = [&random] {
    for (;;) {
      const auto x = bits_as<float>(static_cast<std::uint32_t>(random()));
      if (std::isfinite(x)) return x;
    }
  };
  for (int i = 0; i < 20000; ++i) {
    const LogitPenalty penalty{0, random() % 2 == 0, i % 3 == 0 ? 0 : any_float()};
    LogitQuery query;
    query.repetition = std::abs(any_float()) + 1e-40F;
    query.penalties = {&penalty, 1};
    const float logit = any_float();
    ASSERT_EQ(penalise_logit(logit, query.repetition, penalty.repeated, penalty.subtract),
              penalised_by_hand(logit, 0, query));
  }
}

TEST(LogitNoiseBits, OrderedBitsAreInTheOrderOfTheNumbers) {
  const std::vector<float> ascending = {-kLargest, -1.5F,  -1.0F, -1e-45F, 0.0F,
                                        1e-45F,    1e-30F, 1.0F,  1.5F,    kLargest};
  for (std::size_t i = 0; i + 1 < ascending.size(); ++i) {
    EXPECT_LT(ordered_bits(ascending[i]), ordered_bits(ascending[i + 1]));
    EXPECT_LT(ordered_bits(double{ascending[i]}), ordered_bits(double{ascending[i + 1]}));
  }
  EXPECT_GT(ordered_bits(-kLargest), 0U);
  EXPECT_EQ(ordered_bits(-0.0F), ordered_bits(0.0F));
  EXPECT_EQ(ordered_bits(-0.0), ordered_bits(0.0));
}

#endif  // SHARDLM_TEST_EMULATED

}  // namespace
}  // namespace shardlm::cuda
