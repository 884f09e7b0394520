// The arithmetic of the benchmark's tests, and what the model is asked to do in one.
#include "engine/bench.h"

#include <gmock/gmock.h>

namespace shardlm {
namespace {

using Kind = BenchTest::Kind;

ModelConfig gpt2() {
  ModelConfig c;
  c.n_layer = 12;
  c.n_embd = 768;
  c.n_head = 12;
  c.n_inner = 3072;
  c.n_positions = 1024;
  c.vocab_size = 50257;
  return c;
}

TEST(BenchTest, HasTheNamesOfItsPeers) {
  EXPECT_EQ((BenchTest{Kind::prefill, 128, 1}.name()), "pp128");
  EXPECT_EQ((BenchTest{Kind::decode, 64, 4}.name()), "tg64");
}

// 0.1728 and 0.1795 GFLOP a token for prompts of 128 and 512 (blocks, causal attention, logits of
// the last token): counted by hand for GPT-2 124M.
TEST(BenchTest, CountsTheOperationsOfAPrefill) {
  EXPECT_NEAR(bench_flops(gpt2(), {Kind::prefill, 128, 1}) / 128, 0.1728e9, 0.0001e9);
  EXPECT_NEAR(bench_flops(gpt2(), {Kind::prefill, 512, 1}) / 512, 0.1795e9, 0.0001e9);
  EXPECT_EQ(bench_flops(gpt2(), {Kind::prefill, 128, 3}),
            3 * bench_flops(gpt2(), {Kind::prefill, 128, 1}));
}

// One step after one token: every matrix element once (12 x 12 x 768^2 + 50257 x 768), and two keys
// of 768 for scores and values in 12 layers.
TEST(BenchTest, CountsTheOperationsOfAStep) {
  EXPECT_EQ(bench_flops(gpt2(), {Kind::decode, 1, 1}),
            2.0 * (12.0 * 12 * 768 * 768 + 50257.0 * 768 + 12 * 2 * 2 * 768));
}

TEST(BenchTest, KnowsWhatItNeeds) {
  const BenchSetup setup{
      .n_positions = 1024, .vocab_size = 10, .block_tokens = 32, .prefill_chunk = 100};
  EXPECT_EQ(bench_blocks({Kind::prefill, 64, 2}, setup), 4);
  EXPECT_EQ(bench_blocks({Kind::decode, 64, 2}, setup), 6);  // 65 positions each
  EXPECT_EQ(bench_rows({Kind::prefill, 64, 2}, setup), 100);
  EXPECT_EQ(bench_rows({Kind::prefill, 16, 2}, setup), 32);
  EXPECT_EQ(bench_rows({Kind::decode, 64, 2}, setup), 2);
}

TEST(BenchTest, IsRefusedBeyondTheContext) {
  const auto refusal = [](const BenchTest& test) -> std::string {
    try {
      check_fits(test, 16);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::usage);
      return error.what();
    }
    return "fits";
  };
  EXPECT_EQ(refusal({Kind::prefill, 16, 1}), "fits");
  EXPECT_EQ(refusal({Kind::decode, 15, 1}), "fits");
  EXPECT_THAT(refusal({Kind::prefill, 17, 1}),
              testing::AllOf(testing::HasSubstr("--prompt"), testing::HasSubstr("at most 16"),
                             testing::HasSubstr("found 17")));
  EXPECT_THAT(refusal({Kind::decode, 16, 1}),
              testing::AllOf(testing::HasSubstr("--generate"), testing::HasSubstr("at most 15")));
}

}  // namespace
}  // namespace shardlm
