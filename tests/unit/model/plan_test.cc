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

TEST(Plan, a_token_costs_two_all_reduces_a_layer_and_one_for_the_embedding) {
  const auto token = step_collectives(gpt2_small(), 2, 1);
  EXPECT_EQ(total_count(token), 2 * 12 + 1);
  EXPECT_EQ(total_bytes(token), 25 * 3072);
  EXPECT_EQ(total_bytes(step_collectives(gpt2_small(), 2, 128)), 25 * 393216);
  EXPECT_TRUE(step_collectives(gpt2_small(), 1, 1).empty());
}

}  // namespace
}  // namespace shardlm
