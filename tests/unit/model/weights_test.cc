// How a checkpoint's spellings and quirks are met, on small files written here.
#include "model/weights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>

#include "base/error.h"
#include "io/safetensors_writer.h"

namespace shardlm {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
namespace fs = std::filesystem;

ModelConfig tiny() {
  ModelConfig c;
  c.n_layer = 1;
  c.n_embd = 2;
  c.n_head = 1;
  c.n_inner = 3;
  c.n_positions = 4;
  c.vocab_size = 5;
  return c;
}

/// A folder with a model.safetensors of the named tensors; element i of a tensor is i + offset.
class WeightFiles : public testing::Test {
 protected:
  void SetUp() override {
    dir_ = fs::temp_directory_path() / ("shardlm_weights_" + std::to_string(::getpid()));
    fs::create_directories(dir_);
  }
  void TearDown() override { fs::remove_all(dir_); }

  void add(const std::string& name, std::vector<std::int64_t> shape, float offset = 0) {
    std::int64_t n = 1;
    for (const std::int64_t d : shape) n *= d;
    auto& values = data_[name];
    for (std::int64_t i = 0; i < n; ++i) values.push_back(static_cast<float>(i) + offset);
    shapes_[name] = std::move(shape);
  }

  // Every tensor of the tiny model, under a prefix.
  void add_model(const std::string& prefix = "") {
    add(prefix + "wte.weight", {5, 2});
    add(prefix + "h.0.ln_1.weight", {2});
    add(prefix + "h.0.attn.c_attn.weight", {2, 6});
    add(prefix + "h.0.mlp.c_fc.weight", {2, 3});
  }

  const Checkpoint& open() {
    std::vector<OutTensor> tensors;
    for (const auto& [name, values] : data_) tensors.push_back({name, shapes_[name], values});
    write_safetensors(dir_ / "model.safetensors", tensors);
    checkpoint_ = Checkpoint::open(dir_);
    return *checkpoint_;
  }

  template <typename Ask>
  static std::string refusal(Ask&& ask) {
    try {
      ask();
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ExitCode::model_files);
      return e.what();
    }
    return "accepted";
  }

  fs::path dir_;
  std::map<std::string, std::vector<float>> data_;
  std::map<std::string, std::vector<std::int64_t>> shapes_;
  std::optional<Checkpoint> checkpoint_;
  ModelConfig config_ = tiny();
};

TEST_F(WeightFiles, names_may_carry_the_transformer_prefix) {
  add_model("transformer.");
  CheckpointWeights weights(open(), config_);
  EXPECT_EQ(weights.tensor("wte.weight", {5, 2}).name, "transformer.wte.weight");
}

TEST_F(WeightFiles, another_prefix_is_refused_with_a_found_and_a_wanted_name) {
  add_model("model.transformer.");
  const std::string text = refusal([&] { CheckpointWeights weights(open(), config_); });
  EXPECT_THAT(text, HasSubstr("model.transformer.h.0.ln_1.weight"));
  EXPECT_THAT(text, HasSubstr("transformer.h.0.ln_1.weight"));
}

TEST_F(WeightFiles, a_missing_tensor_and_a_wrong_shape_are_named_with_both_sides) {
  add_model();
  CheckpointWeights weights(open(), config_);
  EXPECT_THAT(refusal([&] { weights.tensor("wpe.weight", {4, 2}); }), HasSubstr("wpe.weight"));
  const std::string text = refusal([&] { weights.tensor("wte.weight", {6, 2}); });
  EXPECT_THAT(text, HasSubstr("[6, 2]"));
  EXPECT_THAT(text, HasSubstr("[5, 2]"));
  EXPECT_THAT(text, HasSubstr("vocab_size"));
}

TEST_F(WeightFiles, linear_weights_the_other_way_round_are_told_by_c_attn) {
  add("h.0.ln_1.weight", {2});
  add("h.0.attn.c_attn.weight", {6, 2});
  add("h.0.attn.c_proj.weight", {2, 2});
  add("h.0.mlp.c_fc.weight", {2, 3});  // not turned: a mixture
  CheckpointWeights weights(open(), config_);
  EXPECT_TRUE(weights.linear("h.0.attn.c_attn.weight", 2, 6).rows_are_outputs);
  EXPECT_TRUE(weights.linear("h.0.attn.c_proj.weight", 2, 2).rows_are_outputs);
  EXPECT_THAT(refusal([&] { weights.linear("h.0.mlp.c_fc.weight", 2, 3); }),
              HasSubstr("orientation"));
}

TEST_F(WeightFiles, a_lone_lm_head_serves_a_tied_model_as_wte) {
  add("lm_head.weight", {5, 2});
  add("transformer.h.0.ln_1.weight", {2});
  CheckpointWeights weights(open(), config_);
  EXPECT_EQ(weights.tensor("wte.weight", {5, 2}).name, "lm_head.weight");
  EXPECT_FALSE(weights.lm_head_differs(0, 5));
}

TEST_F(WeightFiles, a_head_beside_a_tied_table_is_compared_over_the_asked_rows) {
  add_model();
  add("lm_head.weight", {5, 2});
  data_["lm_head.weight"][7] += 1;  // row 3
  CheckpointWeights weights(open(), config_);
  EXPECT_FALSE(weights.lm_head_differs(0, 3));
  EXPECT_TRUE(weights.lm_head_differs(3, 5));
  EXPECT_THAT(weights.unused(), testing::Not(testing::Contains("lm_head.weight")));
}

TEST_F(WeightFiles, an_untied_model_needs_its_head) {
  config_.tie_word_embeddings = false;
  add_model();
  CheckpointWeights weights(open(), config_);
  EXPECT_THAT(refusal([&] {
                weights.tensor("lm_head.weight", {5, 2});
              }),
              HasSubstr("tie_word_embeddings is false"));
}

TEST_F(WeightFiles, unused_tensors_are_listed_and_mask_buffers_are_not) {
  add_model();
  add("h.0.attn.bias", {1, 1, 4, 4});
  add("h.0.attn.masked_bias", {1});
  add("h.9.extra", {1});
  CheckpointWeights weights(open(), config_);
  weights.tensor("wte.weight", {5, 2});
  weights.tensor("h.0.ln_1.weight", {2});
  weights.linear("h.0.attn.c_attn.weight", 2, 6);
  EXPECT_THAT(weights.unused(), ElementsAre("h.0.mlp.c_fc.weight", "h.9.extra"));
}

}  // namespace
}  // namespace shardlm
