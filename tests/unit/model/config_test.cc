#include "model/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"

namespace shardlm {
namespace {

using testing::HasSubstr;

// A small GPT-2 with one more line of JSON members; later members of a test replace `field`.
std::string config_text(const std::string& more = "") {
  return R"({"model_type":"gpt2","n_layer":2,"n_embd":20,"n_head":5,"n_positions":32,"vocab_size":101)" +
         (more.empty() ? "" : "," + more) + "}";
}

ModelConfig parse(const std::string& text) { return parse_model_config(text, "config.json"); }

std::string refusal(const std::string& text) {
  try {
    parse(text);
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::model_files);
    return e.what();
  }
  return "accepted";
}

TEST(ModelConfig, defaults_are_those_of_hugging_face) {
  const ModelConfig c = parse(config_text());
  EXPECT_EQ(c.n_inner, 80);
  EXPECT_EQ(c.head_dim(), 4);
  EXPECT_FLOAT_EQ(c.layer_norm_epsilon, 1e-5F);
  EXPECT_EQ(c.activation, Activation::gelu_tanh);
  EXPECT_TRUE(c.scale_attn_weights);
  EXPECT_FALSE(c.scale_attn_by_inverse_layer_idx);
  EXPECT_TRUE(c.tie_word_embeddings);
  EXPECT_TRUE(c.warnings.empty());
}

TEST(ModelConfig, every_activation_name_is_told_apart) {
  const std::vector<std::pair<std::string, Activation>> names = {
      {"gelu_new", Activation::gelu_tanh},
      {"gelu_fast", Activation::gelu_tanh},
      {"gelu_pytorch_tanh", Activation::gelu_tanh},
      {"gelu", Activation::gelu_erf},
      {"quick_gelu", Activation::gelu_quick},
      {"relu", Activation::relu},
      {"silu", Activation::silu},
      {"swish", Activation::silu},
      {"tanh", Activation::tanh}};
  for (const auto& [name, kind] : names) {
    EXPECT_EQ(parse(config_text("\"activation_function\":\"" + name + "\"")).activation, kind)
        << name;
  }
  const std::string text = refusal(config_text(R"("activation_function":"swoosh")"));
  EXPECT_THAT(text, HasSubstr("activation_function"));
  EXPECT_THAT(text, HasSubstr("swoosh"));
  EXPECT_THAT(text, HasSubstr("gelu_new"));
}

TEST(ModelConfig, a_field_that_changes_the_result_is_refused_by_name) {
  EXPECT_THAT(refusal(config_text(R"("add_cross_attention":true)")),
              HasSubstr("add_cross_attention"));
  EXPECT_THAT(refusal(config_text(R"("pruned_heads":{"0":[1]})")), HasSubstr("pruned_heads"));
  EXPECT_THAT(refusal(config_text(R"("quantization_config":{"bits":4})")),
              HasSubstr("quantization_config"));
  EXPECT_NO_THROW(parse(config_text(R"("pruned_heads":{},"add_cross_attention":false)")));
}

TEST(ModelConfig, unknown_fields_are_named_in_one_warning) {
  const ModelConfig c = parse(config_text(R"("rope_theta":1,"attn_pdrop":0.1,"sliding":2)"));
  ASSERT_EQ(c.warnings.size(), 1U);
  EXPECT_THAT(c.warnings[0], HasSubstr("rope_theta, sliding"));
}

TEST(ModelConfig, n_ctx_that_differs_is_said_and_n_positions_rules) {
  const ModelConfig c = parse(config_text(R"("n_ctx":16)"));
  EXPECT_EQ(c.n_positions, 32);
  ASSERT_EQ(c.warnings.size(), 1U);
  EXPECT_THAT(c.warnings[0], HasSubstr("n_ctx 16"));
}

TEST(ModelConfig, hostile_values_are_refused_by_name) {
  const auto with = [](const std::string& key, const std::string& value) {
    std::string text = config_text();
    const auto at = text.find("\"" + key + "\":") + key.size() + 3;
    return text.replace(at, text.find_first_of(",}", at) - at, value);
  };
  for (const std::string key : {"n_layer", "n_embd", "n_head", "n_positions", "vocab_size"}) {
    for (const std::string value :
         {"0", "-1", "1.5", "1e3", "\"12\"", "4294967296", "null", "[1]"}) {
      EXPECT_THAT(refusal(with(key, value)), HasSubstr(key)) << key << " " << value;
    }
  }
  EXPECT_THAT(refusal(with("n_head", "3")), HasSubstr("a divisor of n_embd 20"));
  EXPECT_THAT(refusal(with("model_type", "\"llama\"")), HasSubstr("model_type"));
  EXPECT_THAT(refusal("[]"), HasSubstr("JSON object"));
  EXPECT_THAT(refusal(config_text(R"("layer_norm_epsilon":"x")")), HasSubstr("layer_norm_epsilon"));
  EXPECT_THAT(refusal(config_text(R"("tie_word_embeddings":1)")), HasSubstr("tie_word_embeddings"));
}

TEST(ModelConfig, an_end_of_text_id_outside_the_vocabulary_is_none) {
  EXPECT_EQ(parse(config_text(R"("eos_token_id":100)")).eos_token_id, 100);
  EXPECT_EQ(parse(config_text(R"("eos_token_id":50256)")).eos_token_id, std::nullopt);
}

TEST(ModelConfig, a_folder_that_is_not_there_is_named) {
  EXPECT_THROW(read_model_config("/nonexistent/model"), Error);
}

}  // namespace
}  // namespace shardlm
