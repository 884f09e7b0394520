// Weights and caches of every type, on made-up weights: what must hold bit by bit whatever the
// types, and how often the threads of a rank are started and waited for.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "backend/cpu/cpu_backend.h"
#include "engine/coordinator.h"
#include "engine/executor.h"
#include "model/fake_weights.h"
#include "model/model.h"
#include "parallel/tap.h"
#include "tests/support/thread_ranks.h"

namespace shardlm {
namespace {

constexpr std::int64_t kLayers = 2;

ModelConfig small_model() {
  ModelConfig c;
  c.family = "gpt2";
  c.n_layer = kLayers;
  c.n_embd = 256;
  c.n_head = 4;
  c.n_inner = 1024;
  c.n_positions = 64;
  c.vocab_size = 1000;
  return c;
}

using Body = std::function<void(Coordinator&, Backend&)>;

void run_fake(int ranks, int threads, const Precision& precision, const Body& body) {
  ThreadRankOptions options;
  options.backend_threads = threads;
  options.precision = precision;
  run_ranks(
      ranks,
      [&](int rank, Communicator& comm, Backend& backend) {
        const ModelConfig config = small_model();
        FakeWeights weights(config);
        Tap silent;
        const Context context{backend, comm, silent};
        const auto model = make_model(config, weights, context);
        Executor executor(context, *model, model->make_cache(8, 32),
                          std::vector<std::uint8_t>(1000, 1));
        if (rank != 0) {
          serve(comm, executor);
          return;
        }
        Coordinator coordinator(comm, executor);
        body(coordinator, backend);
        coordinator.stop(0);
      },
      options);
}

// The ids [start, start + n) of a text, asking for the best five ids of the last row.
StepPlan text_part(std::int64_t start, int n, std::int32_t block = 0) {
  StepPlan plan;
  SequencePlan sequence{.start = start, .ids = {}, .blocks = {block}};
  for (int i = 0; i < n; ++i) {
    sequence.ids.push_back(static_cast<std::int32_t>((start + i) * 37 % 1000));
  }
  plan.sequences.push_back(sequence);
  plan.queries.push_back({.row = n - 1, .query = {.n_candidates = 5}, .penalties = {}});
  return plan;
}

std::vector<float> logits_of(const std::vector<std::vector<LogitReply>>& replies) {
  std::vector<float> logits;
  for (const LogitReply& reply : replies.at(0)) {
    for (const Candidate& c : reply.candidates) {
      logits.push_back(static_cast<float>(c.id));
      logits.push_back(c.raw);
    }
  }
  return logits;
}

// The logits after a prompt of ten ids, cut after `first`, and of two more ids one by one.
std::vector<float> logits_of_text(Coordinator& coordinator, int first) {
  std::vector<float> all;
  const auto add = [&](const StepPlan& plan) {
    const std::vector<float> logits = logits_of(coordinator.run(plan));
    all.insert(all.end(), logits.begin(), logits.end());
  };
  if (first > 0) coordinator.run(text_part(0, first));
  add(text_part(first, 10 - first));
  add(text_part(10, 1));
  add(text_part(11, 1));
  return all;
}

class Types : public testing::TestWithParam<Precision> {};

TEST_P(Types, bits_do_not_depend_on_threads_or_on_how_a_prompt_is_cut) {
  for (const int ranks : {1, 3}) {
    std::vector<float> expected;
    run_fake(ranks, 1, GetParam(), [&](Coordinator& coordinator, Backend&) {
      expected = logits_of_text(coordinator, 0);
    });
    ASSERT_EQ(expected.size(), static_cast<std::size_t>(ranks * 3 * 5 * 2));
    for (const auto& [threads, first] : {std::pair(1, 9), std::pair(2, 1), std::pair(3, 4)}) {
      run_fake(ranks, threads, GetParam(), [&, first](Coordinator& coordinator, Backend&) {
        EXPECT_EQ(logits_of_text(coordinator, first), expected)
            << ranks << " ranks, " << threads << " threads, cut after " << first;
      });
    }
  }
}

TEST_P(Types, a_decoding_step_waits_for_its_threads_twice_a_sum_at_most) {
  for (const int ranks : {1, 2}) {
    run_fake(ranks, 2, GetParam(), [&](Coordinator& coordinator, Backend& backend) {
      coordinator.run(text_part(0, 30));
      const std::uint64_t before = cpu_parallel_regions(backend);
      constexpr std::uint64_t kSteps = 4, kSums = 1 + 2 * kLayers;
      for (std::int64_t i = 0; i < static_cast<std::int64_t>(kSteps); ++i) {
        coordinator.run(text_part(30 + i % 2, 1));
      }
      const std::uint64_t regions = cpu_parallel_regions(backend) - before;
      EXPECT_GT(regions, kSteps);  // the threads do take part
      EXPECT_LE(regions, 2 * kSums * kSteps) << ranks << " ranks";
    });
  }
}

constexpr DType kF32 = DType::f32;
INSTANTIATE_TEST_SUITE_P(
    All, Types,
    testing::Values(Precision{kF32, kF32, kF32}, Precision{DType::bf16, kF32, DType::bf16},
                    Precision{DType::f16, kF32, DType::f16}, Precision{DType::q8, kF32, DType::i8},
                    Precision{DType::q4, kF32, DType::f16}),
    [](const auto& of) { return fmt::format("{}_{}", name(of.param.weights), name(of.param.kv)); });

}  // namespace
}  // namespace shardlm
