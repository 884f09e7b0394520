// The plan against counts worked out by hand and the formulas of Megatron-style sharding.
#include "model/plan.h"

#include <gtest/gtest.h>

namespace shardlm {
namespace {

ModelConfig gpt2_small() {
  ModelConfig c;
  c.family = "gpt2";
  c.n_layer = 12;
  c.n_embd = 768;
  c.n_head = 12;
  c.n_inner = 3072;
  c.n_positions = 1024;
  c.vocab_size = 50257;
  return c;
}

constexpr std::int64_t kGpt2SmallParameters = 124439808;  // as published, head tied

TEST(Plan, one_rank_holds_all_parameters) {
  const auto shares = shard_plan(gpt2_small(), 1);
  ASSERT_EQ(shares.size(), 1U);
  EXPECT_EQ(shares[0].weight_bytes, 4 * kGpt2SmallParameters);
  EXPECT_EQ(shares[0].kv_bytes_per_token, 2 * 12 * 768 * 4);
}

TEST(Plan, shards_add_up_to_the_model_plus_what_every_rank_repeats) {
  // Repeated: positions, 4 LayerNorm vectors and 2 c_proj biases a layer, 2 vectors of ln_f.
  constexpr std::int64_t repeated = 1024 * 768 + 12 * 6 * 768 + 2 * 768;
  for (const int ranks : {2, 3, 5, 8, 64}) {
    std::int64_t weights = 0, kv = 0;
    for (const RankShare& s : shard_plan(gpt2_small(), ranks)) {
      weights += s.weight_bytes;
      kv += s.kv_bytes_per_token;
    }
    EXPECT_EQ(weights, 4 * (kGpt2SmallParameters + (ranks - 1) * repeated)) << ranks;
    EXPECT_EQ(kv, 2 * 12 * 768 * 4) << ranks;
  }
}

TEST(Plan, an_untied_head_is_a_second_table) {
  ModelConfig c = gpt2_small();
  c.tie_word_embeddings = false;
  EXPECT_EQ(shard_plan(c, 1)[0].weight_bytes, 4 * (kGpt2SmallParameters + 50257 * 768));
}

TEST(Plan, bytes_follow_the_types_of_what_is_held) {
  const ModelConfig c = gpt2_small();
  const Precision half{DType::bf16, DType::bf16, DType::f16};
  // Float32 stays what every rank holds in full: positions, 4 LayerNorm vectors and 2 c_proj biases
  // a layer, 2 vectors of ln_f.
  constexpr std::int64_t full = 1024 * 768 + 12 * 6 * 768 + 2 * 768;
  EXPECT_EQ(shard_plan(c, 1, half)[0].weight_bytes, 2 * (kGpt2SmallParameters - full) + 4 * full);
  EXPECT_EQ(shard_plan(c, 1, half)[0].kv_bytes_per_token, 2 * 12 * 768 * 2);
  const Precision mixed{DType::f32, DType::f32, DType::bf16};
  EXPECT_EQ(shard_plan(c, 3, mixed)[1].weight_bytes, shard_plan(c, 3)[1].weight_bytes);
  EXPECT_EQ(shard_plan(c, 3, mixed)[1].kv_bytes_per_token,
            shard_plan(c, 3)[1].kv_bytes_per_token / 2);
}

TEST(Plan, memory_is_weights_with_padded_rows_keys_and_values_and_a_workspace) {
  const ModelConfig c = gpt2_small();
  const RankShare whole = shard_plan(c, 1)[0];
  const MemoryNeed need = memory_need(c, whole, {}, {.kv_tokens = 64, .rows = 8, .logit_rows = 2});
  EXPECT_EQ(need.weights, 4 * kGpt2SmallParameters);  // all rows are multiples of 16 bytes
  EXPECT_EQ(need.kv, 64 * 2 * 12 * 768 * 4);
  EXPECT_EQ(need.total(), need.weights + need.kv + need.workspace);
  // At least: residual, addend and q, k, v of 8 rows, and logits of 2.
  EXPECT_GT(need.workspace, 8 * 5 * 768 * 4 + 2 * 50257 * 4);
  EXPECT_LT(need.workspace, std::int64_t{64} << 20);
  const MemoryNeed longer =
      memory_need(c, whole, {}, {.kv_tokens = 64, .rows = 800, .logit_rows = 2});
  EXPECT_GT(longer.workspace, need.workspace + 792 * 5 * 768 * 4);
}

TEST(Plan, odd_rows_are_padded) {
  ModelConfig c = gpt2_small();
  c.n_layer = 1;
  c.n_embd = 6;
  c.n_head = 1;
  c.n_inner = 5;
  c.vocab_size = 7;
  c.n_positions = 4;
  const RankShare share = shard_plan(c, 1)[0];
  const Precision half{DType::f16, DType::f16, DType::f16};
  // Of [in, out] and [out, in] the larger, in bytes: c_attn 6 x 18 (6 x 48 or 18 x 16), c_proj 6 x
  // 6 (6 x 16), c_fc 6 x 5 (6 x 16 or 5 x 16), c_proj 5 x 6; the table 7 x 16; biases 18 + 5 in
  // f16; in float32: positions 4 x 6, 6 vectors of a layer, 2 of ln_f.
  EXPECT_EQ(memory_need(c, share, half, {}).weights,
            6 * 48 + 6 * 16 + 6 * 16 + 6 * 16 + 7 * 16 + 2 * 23 + 4 * (4 * 6 + 8 * 6));
}

TEST(Plan, a_token_costs_two_all_reduces_a_layer_and_one_for_the_embedding) {
  const auto token = step_collectives(gpt2_small(), 2, 1);
  EXPECT_EQ(total_count(token), 2 * 12 + 1);
  EXPECT_EQ(total_bytes(token), 25 * 3072);
  EXPECT_EQ(total_bytes(step_collectives(gpt2_small(), 2, 128)), 25 * 393216);
  EXPECT_TRUE(step_collectives(gpt2_small(), 1, 1).empty());
}

TEST(Plan, exact_sums_have_shares_of_whole_blocks_and_messages_twice_as_long) {
  EXPECT_EQ(total_bytes(step_collectives(gpt2_small(), 2, 1, Reduction::exact)), 49 * 3072);
  ModelConfig c = gpt2_small();  // 48 blocks of 64 columns over 5 ranks: 10, 10, 10, 9, 9
  const auto shares = shard_plan(c, 5, {}, Reduction::exact);
  EXPECT_EQ(shares[0].mlp_columns, (Range{0, 640}));
  EXPECT_EQ(shares[4].mlp_columns, (Range{39 * 64, 3072}));
  EXPECT_EQ(shares[4].heads, shard_plan(c, 5)[4].heads);
  c.n_embd = 120;  // heads of 10; 16 of them would hold whole blocks of 32: all on rank 0
  EXPECT_EQ(shard_plan(c, 3, {DType::q8, DType::f32, DType::f16}, Reduction::exact)[0].heads,
            (Range{0, 12}));
}

}  // namespace
}  // namespace shardlm
