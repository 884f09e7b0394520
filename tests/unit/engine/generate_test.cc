// The generation loop on a model whose logits are made by hand: scheduling, ends, and the clock.
#include "engine/generate.h"

#include <gtest/gtest.h>

#include "backend/cpu/cpu_backend.h"
#include "comm/self_communicator.h"
#include "engine/score.h"

namespace shardlm {
namespace {

constexpr std::int64_t kVocab = 8;

/// After a token t at position p the best next id is (t + 1) mod kVocab; counts steps and rows.
class NextIdModel final : public Model {
 public:
  explicit NextIdModel(const Context& context) : context_(context) {}
  KvCache make_cache(std::int64_t, std::int64_t) const override { return {}; }
  Range vocab_ids() const override { return {0, kVocab}; }
  std::size_t step_weight_bytes() const override { return 0; }
  Tensor forward(const Step& step, KvCache&) const override {
    rows.push_back(step.ids.size());
    last_positions.assign(step.positions.host.begin(), step.positions.host.end());
    const std::int64_t n = step.logit_rows.size();
    std::vector<float> logits(static_cast<std::size_t>(n * kVocab), 0);
    for (std::size_t i = 0; i < step.logit_rows.host.size(); ++i) {
      const std::int32_t id = step.ids.host[static_cast<std::size_t>(step.logit_rows.host[i])];
      logits[i * kVocab + static_cast<std::size_t>((id + 1) % kVocab)] = 5;
    }
    Tensor out = context_.backend.allocate(n, kVocab);
    context_.backend.upload(logits, out);
    return out;
  }
  mutable std::vector<std::int64_t> rows;  // of each step
  mutable std::vector<std::int32_t> last_positions;

 private:
  const Context& context_;
};

class Generate : public testing::Test {
 protected:
  std::vector<Sequence> run(std::vector<Request> requests, GenerateSetup setup) {
    setup.vocab_size = kVocab;
    const std::int64_t n_blocks = blocks_needed(requests, setup);
    Executor executor(context_, model_, model_.make_cache(n_blocks, setup.block_tokens),
                      std::vector<std::uint8_t>(kVocab, 1));
    Coordinator coordinator(comm_, executor);
    return generate(coordinator, setup, std::move(requests), n_blocks, {}, timing_);
  }

  static Request greedy(std::vector<std::int32_t> prompt, std::int64_t max_tokens) {
    return {.prompt = std::move(prompt), .sampling = {.temperature = 0}, .max_tokens = max_tokens};
  }

  std::unique_ptr<Backend> backend_ = make_cpu_backend(1);
  SelfCommunicator comm_{*backend_};
  Tap silent_;
  Context context_{*backend_, comm_, silent_};
  NextIdModel model_{context_};
  GenerateTiming timing_;
};

// traps.md 8: the last position still yields one token; its own position is never read.
TEST_F(Generate, ends_with_length_when_no_position_is_left) {
  for (const auto& [n_prompt, max_tokens, expected] :
       {std::tuple{15, 1, 1}, {15, 2, 2}, {15, 50, 2}, {16, 1, 1}, {16, 50, 1}}) {
    const auto sequences =
        run({greedy(std::vector<std::int32_t>(static_cast<std::size_t>(n_prompt), 0), max_tokens)},
            {.n_positions = 16});
    EXPECT_EQ(std::ssize(sequences[0].ids()), expected) << n_prompt << " " << max_tokens;
    EXPECT_EQ(sequences[0].finish(), FinishReason::length);
    EXPECT_LE(model_.last_positions.back(), 15);
  }
}

TEST_F(Generate, a_short_entry_goes_on_when_a_long_one_is_full) {
  const auto s = run({greedy(std::vector<std::int32_t>(16, 0), 10), greedy({0, 1, 2}, 5)},
                     {.n_positions = 16});
  EXPECT_EQ(s[0].ids(), (std::vector<std::int32_t>{1}));
  EXPECT_EQ(s[1].ids(), (std::vector<std::int32_t>{3, 4, 5, 6, 7}));
}

TEST_F(Generate, the_end_of_text_id_ends_a_sequence_and_is_kept) {
  const auto s = run({greedy({2}, 20)}, {.n_positions = 64, .eos = 5});
  EXPECT_EQ(s[0].ids(), (std::vector<std::int32_t>{3, 4, 5}));
  EXPECT_EQ(s[0].finish(), FinishReason::eos);
  Request ignoring = greedy({2}, 5);
  ignoring.ignore_eos = true;
  EXPECT_EQ(run({ignoring}, {.n_positions = 64, .eos = 5})[0].ids(),
            (std::vector<std::int32_t>{3, 4, 5, 6, 7}));
}

TEST_F(Generate, no_tokens_asked_means_no_step) {
  const auto s = run({greedy({1, 2}, 0)}, {.n_positions = 16});
  EXPECT_TRUE(s[0].ids().empty());
  EXPECT_EQ(s[0].finish(), FinishReason::length);
  EXPECT_TRUE(model_.rows.empty());
  EXPECT_FALSE(timing_.ttft_ms.has_value());
}

TEST_F(Generate, prompts_are_cut_into_chunks_and_decoding_goes_on_beside_them) {
  run({greedy({0}, 3), greedy(std::vector<std::int32_t>(9, 0), 1)},
      {.n_positions = 16, .limits = {.prefill_chunk = 4, .max_batch = 8}});
  // 1 + 3 prompt tokens; then 1 decoded beside 4 more; then 1 beside the last 2.
  EXPECT_EQ(model_.rows, (std::vector<std::int64_t>{4, 5, 3}));
}

TEST_F(Generate, at_most_max_batch_sequences_run_at_once_and_all_get_their_turn) {
  const auto s = run({greedy({0}, 2), greedy({1}, 2), greedy({2}, 2)},
                     {.n_positions = 16, .limits = {.prefill_chunk = 64, .max_batch = 2}});
  EXPECT_EQ(model_.rows, (std::vector<std::int64_t>{2, 2, 1, 1}));
  EXPECT_EQ(s[2].ids(), (std::vector<std::int32_t>{3, 4}));
}

// traps.md 50: a prompt of 12 ids prefilled in 120 ms, then 7 decode steps of 10 ms.
TEST_F(Generate, prefill_and_decode_are_timed_apart) {
  std::vector<double> times = {0, 0.120};
  for (int i = 1; i <= 7; ++i) times.push_back(0.120 + 0.010 * i);
  std::size_t next = 0;
  run({greedy(std::vector<std::int32_t>(12, 0), 8)},
      {.n_positions = 64, .clock = [&] { return times.at(next++); }});
  EXPECT_NEAR(*timing_.ttft_ms, 120, 1e-9);
  EXPECT_NEAR(*timing_.tpot_ms, 10, 1e-9);
  EXPECT_NEAR(*timing_.tokens_per_s, 100, 1e-9);
}

TEST_F(Generate, rates_need_two_ids) {
  run({greedy({0}, 1)}, {.n_positions = 16});
  EXPECT_TRUE(timing_.ttft_ms.has_value());
  EXPECT_FALSE(timing_.tpot_ms.has_value());
  EXPECT_FALSE(timing_.tokens_per_s.has_value());
}

TEST(ScoreWindows, every_id_but_the_first_is_predicted_once) {
  for (const std::int64_t n : {2, 3, 10, 11, 257}) {
    for (const auto& [window, stride] :
         {std::pair<std::int64_t, std::int64_t>{10, 10}, {10, 3}, {4, 1}, {256, 256}}) {
      std::vector<int> predicted(static_cast<std::size_t>(n), 0);
      for (const ScoreWindow& w : score_windows(n, {.window = window, .stride = stride})) {
        EXPECT_LE(w.end - w.begin, window);
        EXPECT_LE(w.begin, w.first);
        for (std::int64_t i = w.first; i < w.end; ++i) ++predicted[static_cast<std::size_t>(i + 1)];
      }
      EXPECT_EQ(predicted[0], 0);
      EXPECT_TRUE(std::all_of(predicted.begin() + 1, predicted.end(), [](int c) { return c == 1; }))
          << n << " ids, window " << window << ", stride " << stride;
    }
  }
}

TEST(ScoreWindows, with_a_stride_later_windows_keep_context) {
  const auto windows = score_windows(12, {.window = 8, .stride = 4});
  ASSERT_EQ(windows.size(), 2U);
  EXPECT_EQ(windows[1].begin, 4);
  EXPECT_EQ(windows[1].first, 8);  // 4 ids of context before the first that counts
}

}  // namespace
}  // namespace shardlm
