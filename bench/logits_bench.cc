// A question about one row of GPT-2's vocabulary, as the sampler asks it.
#include <benchmark/benchmark.h>

#include <cmath>
#include <optional>
#include <random>
#include <vector>

#include "backend/cpu/query_logits.h"
#include "engine/sampler.h"

namespace shardlm {
namespace {

constexpr std::int64_t kVocabulary = 50257;

/// Normal logits; `scale` 1 is a flat distribution, 6 a peaked one.
std::vector<float> random_logits(double scale) {
  std::mt19937 random(1);
  std::normal_distribution<double> normal(0, scale);
  std::vector<float> logits(static_cast<std::size_t>(kVocabulary));
  for (float& x : logits) x = static_cast<float>(normal(random));
  return logits;
}

/// Whole draws: query, answer, choice, as often as it takes.
void draw(benchmark::State& state, const SamplingParams& params, double scale) {
  ThreadPool threads(static_cast<int>(state.range(0)));
  LogitQueries queries(threads);
  std::vector<float> logits = random_logits(scale);
  const Tensor row = Tensor::borrow(logits.data(), 1, kVocabulary);
  const std::vector<std::uint8_t> allowed(logits.size(), 1);
  Sampler sampler(params, 0, {}, kVocabulary);
  std::vector<LogitReply> replies(1);
  std::uint64_t position = 0;
  std::int64_t asks = 0;
  for (auto _ : state) {
    ++position;
    std::optional<Sampled> sampled;
    while (!sampled) {
      ++asks;
      const LogitQuery query = sampler.query(position);
      queries.run(row, {0, allowed}, std::span(&query, 1), replies);
      sampled = sampler.choose(replies);
    }
    benchmark::DoNotOptimize(sampled->id);
  }
  state.counters["asks"] = static_cast<double>(asks) / static_cast<double>(position);
}

void add(const char* name, const SamplingParams& params, double scale) {
  benchmark::RegisterBenchmark(name, draw, params, scale)
      ->Arg(1)
      ->Arg(2)
      ->ArgName("threads")
      ->UseRealTime()
      ->Unit(benchmark::kMicrosecond);
}

}  // namespace
}  // namespace shardlm

int main(int argc, char** argv) {
  using shardlm::add;
  add("greedy", {.temperature = 0}, 3);
  add("greedy_logprobs", {.temperature = 0, .logprobs = 5}, 3);
  add("top_k_40", {.top_k = 40}, 3);
  add("top_k_40_top_p", {.top_k = 40, .top_p = 0.95}, 3);
  add("no_cuts_flat", {}, 1);
  add("no_cuts_peaked", {}, 6);
  add("top_p_flat", {.top_p = 0.95}, 1);
  add("top_p_peaked", {.top_p = 0.95}, 6);
  add("top_p_30_flat", {.top_p = 0.3}, 1);
  add("min_p_flat", {.min_p = 0.01}, 1);
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
