#include "model/fake_weights.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

namespace shardlm {
namespace {

ModelConfig config() {
  ModelConfig c;
  c.family = "gpt2";
  c.n_layer = 2;
  c.n_embd = 768;
  c.n_head = 12;
  c.n_inner = 3072;
  c.n_positions = 64;
  c.vocab_size = 50257;
  return c;
}

std::vector<float> values_of(const HostTensor& t, std::int64_t first, std::int64_t n) {
  std::vector<float> values(static_cast<std::size_t>(n));
  t.read(first, values);
  return values;
}

// 2 million draws: mean and deviation within 5 standard errors (and bfloat16's cut of 0.4 %), and
// the share within one deviation, 0.6827 for a normal distribution and 0.577 for a uniform one.
TEST(FakeWeights, AreNormal) {
  FakeWeights weights(config());
  const std::vector<float> x =
      values_of(weights.tensor("wte.weight", {50257, 768}), 0, std::int64_t{2} << 20);
  double sum = 0, squares = 0;
  std::int64_t within = 0;
  for (const float v : x) {
    sum += static_cast<double>(v);
    squares += static_cast<double>(v) * static_cast<double>(v);
    within += std::abs(v) < 0.02F ? 1 : 0;
  }
  const auto n = static_cast<double>(x.size());
  EXPECT_NEAR(sum / n, 0, 5 * 0.02 / std::sqrt(n));
  EXPECT_NEAR(std::sqrt(squares / n), 0.02, 0.02 * 0.005);
  EXPECT_NEAR(static_cast<double>(within) / n, 0.6827, 0.005);
}

TEST(FakeWeights, FillTheirShapes) {
  FakeWeights weights(config());
  const HostTensor table = weights.tensor("wte.weight", {50257, 768});
  EXPECT_EQ(table.bytes.size(), std::size_t{50257} * 768 * 2);
  EXPECT_EQ(values_of(table, 50256 * 768, 768).size(), 768U);  // the last row can be read
  const HostMatrix fc = weights.linear("h.0.mlp.c_fc.weight", 768, 3072);
  EXPECT_EQ(fc.tensor.shape, (std::vector<std::int64_t>{768, 3072}));
  EXPECT_FALSE(fc.rows_are_outputs);
}

TEST(FakeWeights, LayerNormsHaveOnes) {
  FakeWeights weights(config());
  for (const char* name : {"h.0.ln_1.weight", "h.1.ln_2.weight", "ln_f.weight"}) {
    EXPECT_EQ(values_of(weights.tensor(name, {768}), 0, 768), std::vector<float>(768, 1)) << name;
  }
  EXPECT_NE(values_of(weights.tensor("ln_f.bias", {768}), 0, 768), std::vector<float>(768, 1));
}

TEST(FakeWeights, AreTheSameEveryTimeAndDifferByName) {
  FakeWeights one(config()), other(config());
  std::set<std::vector<float>> seen;
  for (const char* name : {"h.0.attn.c_proj.weight", "h.1.attn.c_proj.weight"}) {
    const std::vector<float> values = values_of(one.linear(name, 768, 768).tensor, 0, 768 * 768);
    EXPECT_EQ(values, values_of(other.linear(name, 768, 768).tensor, 0, 768 * 768));
    EXPECT_TRUE(seen.insert(values).second) << name;
  }
}

TEST(FakeWeights, RowsOfAPowerOfTwoDoNotRepeatSoon) {
  ModelConfig c = config();
  c.n_embd = 1024;
  FakeWeights weights(c);
  const HostTensor table = weights.tensor("wte.weight", {50257, 1024});
  std::set<std::vector<float>> rows;
  for (std::int64_t r = 0; r < 2000; ++r) {
    EXPECT_TRUE(rows.insert(values_of(table, r * 1024, 1024)).second) << r;
  }
}

}  // namespace
}  // namespace shardlm
