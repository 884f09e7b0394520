#include "model/config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "base/error.h"
#include "io/json.h"

namespace shardlm {
namespace {

constexpr std::int64_t kLargest = std::int64_t{1} << 31;  // of any dimension: ids are 32-bit

struct ActivationName {
  std::string_view name;
  Activation kind;
};
// Hugging Face's names (transformers, activations.py): four spellings of the tanh form.
constexpr std::array kActivations = {
    ActivationName{"gelu_new", Activation::gelu_tanh},
    ActivationName{"gelu_fast", Activation::gelu_tanh},
    ActivationName{"gelu_pytorch_tanh", Activation::gelu_tanh},
    ActivationName{"gelu_accurate", Activation::gelu_tanh},
    ActivationName{"gelu", Activation::gelu_erf},
    ActivationName{"gelu_python", Activation::gelu_erf},
    ActivationName{"quick_gelu", Activation::gelu_quick},
    ActivationName{"relu", Activation::relu},
    ActivationName{"silu", Activation::silu},
    ActivationName{"swish", Activation::silu},
    ActivationName{"tanh", Activation::tanh},
};

// Fields of GPT-2 configurations that cannot change what inference computes.
const std::set<std::string, std::less<>>& harmless_fields() {
  static const std::set<std::string, std::less<>> fields = {"_attn_implementation_autoset",
                                                            "_name_or_path",
                                                            "architectures",
                                                            "attn_implementation",
                                                            "attn_pdrop",
                                                            "bos_token_id",
                                                            "chunk_size_feed_forward",
                                                            "decoder_start_token_id",
                                                            "dtype",
                                                            "embd_pdrop",
                                                            "finetuning_task",
                                                            "gradient_checkpointing",
                                                            "id2label",
                                                            "initializer_range",
                                                            "label2id",
                                                            "max_length",
                                                            "n_special",
                                                            "num_labels",
                                                            "output_attentions",
                                                            "output_hidden_states",
                                                            "output_past",
                                                            "pad_token_id",
                                                            "predict_special_tokens",
                                                            "problem_type",
                                                            "resid_pdrop",
                                                            "return_dict",
                                                            "sep_token_id",
                                                            "summary_activation",
                                                            "summary_first_dropout",
                                                            "summary_proj_to_labels",
                                                            "summary_type",
                                                            "summary_use_proj",
                                                            "task_specific_params",
                                                            "tokenizer_class",
                                                            "torch_dtype",
                                                            "torchscript",
                                                            "transformers_version",
                                                            "use_bfloat16",
                                                            "use_cache"};
  return fields;
}

// Takes fields out of the object one by one; what is left at the end was not understood.
class Fields {
 public:
  Fields(const nlohmann::json& object, std::string where)
      : object_(object), where_(std::move(where)) {
    if (!object.is_object()) {
      fail(ExitCode::model_files, {.what = "the top level",
                                   .expected = "a JSON object",
                                   .found = object.type_name(),
                                   .where = where_});
    }
  }

  const nlohmann::json* take(const std::string& key) {
    taken_.insert(key);
    const auto it = object_.find(key);
    return it == object_.end() || it->is_null() ? nullptr : &*it;
  }

  std::int64_t dimension(const std::string& key, std::optional<std::int64_t> otherwise = {}) {
    const nlohmann::json* value = take(key);
    if (value == nullptr) {
      if (!otherwise) refuse(key, "a whole number", "no such field");
      return *otherwise;
    }
    if (!value->is_number_unsigned() || value->get<std::uint64_t>() < 1 ||
        value->get<std::uint64_t>() >= kLargest) {
      refuse(key, fmt::format("a whole number from 1 to {}", kLargest - 1), value->dump());
    }
    return value->get<std::int64_t>();
  }

  bool flag(const std::string& key, bool otherwise) {
    const nlohmann::json* value = take(key);
    if (value == nullptr) return otherwise;
    if (!value->is_boolean()) refuse(key, "true or false", value->dump());
    return value->get<bool>();
  }

  std::string text(const std::string& key, const std::string& otherwise) {
    const nlohmann::json* value = take(key);
    if (value == nullptr) return otherwise;
    if (!value->is_string()) refuse(key, "a string", value->dump());
    return value->get<std::string>();
  }

  [[noreturn]] void refuse(const std::string& key, const std::string& expected,
                           const std::string& found, const std::string& remedy = {}) const {
    fail(ExitCode::model_files, {.what = "field " + key,
                                 .expected = expected,
                                 .found = found,
                                 .where = where_,
                                 .remedy = remedy});
  }

  std::vector<std::string> left() const {
    std::vector<std::string> names;
    for (const auto& item : object_.items()) {
      if (!taken_.contains(item.key()) && !harmless_fields().contains(item.key())) {
        names.push_back(item.key());
      }
    }
    return names;
  }

 private:
  const nlohmann::json& object_;
  std::string where_;
  std::set<std::string> taken_;
};

float read_epsilon(Fields& fields) {
  const nlohmann::json* value = fields.take("layer_norm_epsilon");
  if (value == nullptr) return 1e-5F;
  const double epsilon = value->is_number() ? value->get<double>() : -1;
  if (!(epsilon >= 0 && epsilon <= 1)) {
    fields.refuse("layer_norm_epsilon", "a number from 0 to 1", value->dump());
  }
  return static_cast<float>(epsilon);
}

Activation read_activation(Fields& fields) {
  const std::string name = fields.text("activation_function", "gelu_new");
  std::vector<std::string_view> known;
  for (const ActivationName& a : kActivations) {
    if (a.name == name) return a.kind;
    known.push_back(a.name);
  }
  fields.refuse("activation_function", fmt::format("one of {}", fmt::join(known, ", ")), name);
}

// Fields that mean another computation than ours: only the value that changes nothing passes.
void refuse_other_models(Fields& fields) {
  if (fields.flag("add_cross_attention", false)) {
    fields.refuse("add_cross_attention", "false", "true",
                  "encoder-decoder models are not supported");
  }
  if (fields.flag("is_encoder_decoder", false)) {
    fields.refuse("is_encoder_decoder", "false", "true",
                  "encoder-decoder models are not supported");
  }
  for (const char* key : {"pruned_heads", "quantization_config"}) {
    const nlohmann::json* value = fields.take(key);
    if (value != nullptr && !value->empty()) fields.refuse(key, "none", value->dump());
  }
  fields.flag("reorder_and_upcast_attn", false);  // float32 scores, scaled first: what we do anyway
}

std::optional<std::int32_t> read_eos(Fields& fields, std::int64_t vocab_size) {
  const nlohmann::json* value = fields.take("eos_token_id");
  if (value == nullptr) return std::nullopt;
  if (!value->is_number_integer()) fields.refuse("eos_token_id", "one token id", value->dump());
  const auto id = value->get<std::int64_t>();
  if (id < 0 || id >= vocab_size) return std::nullopt;  // GPT-2's default 50256 in a small model
  return static_cast<std::int32_t>(id);
}

void check_context(Fields& fields, ModelConfig& config) {
  const nlohmann::json* n_ctx = fields.take("n_ctx");
  if (n_ctx != nullptr && *n_ctx != config.n_positions) {
    config.warnings.push_back(
        fmt::format("config.json: n_ctx {} differs from n_positions {}; the "
                    "context is n_positions",
                    n_ctx->dump(), config.n_positions));
  }
}

ModelConfig read_gpt2(Fields& fields) {
  ModelConfig config;
  config.family = "gpt2";
  config.n_layer = fields.dimension("n_layer");
  config.n_embd = fields.dimension("n_embd");
  config.n_head = fields.dimension("n_head");
  config.n_inner = fields.dimension("n_inner", 4 * config.n_embd);
  config.n_positions = fields.dimension("n_positions");
  config.vocab_size = fields.dimension("vocab_size");
  if (config.n_embd % config.n_head != 0) {
    fields.refuse("n_head", fmt::format("a divisor of n_embd {}", config.n_embd),
                  std::to_string(config.n_head));
  }
  config.layer_norm_epsilon = read_epsilon(fields);
  config.activation = read_activation(fields);
  config.scale_attn_weights = fields.flag("scale_attn_weights", true);
  config.scale_attn_by_inverse_layer_idx = fields.flag("scale_attn_by_inverse_layer_idx", false);
  config.tie_word_embeddings = fields.flag("tie_word_embeddings", true);
  config.eos_token_id = read_eos(fields, config.vocab_size);
  refuse_other_models(fields);
  check_context(fields, config);
  return config;
}

}  // namespace

ModelConfig parse_model_config(std::string_view text, const std::string& where) {
  const nlohmann::json object = parse_json(text, where);
  Fields fields(object, where);
  const std::string type = fields.text("model_type", "");
  if (type != "gpt2") {
    fields.refuse("model_type", "gpt2 (the one family so far)",
                  type.empty() ? "no such field" : "\"" + type + "\"");
  }
  ModelConfig config = read_gpt2(fields);
  const std::vector<std::string> left = fields.left();
  if (!left.empty()) {
    config.warnings.push_back(fmt::format("{}: fields that shardlm does not know, not used: {}",
                                          where, fmt::join(left, ", ")));
  }
  return config;
}

ModelConfig read_model_config(const std::filesystem::path& model_dir) {
  const std::filesystem::path path = model_dir / "config.json";
  if (!std::filesystem::is_directory(model_dir)) {
    fail(ExitCode::model_files, {.what = "model folder",
                                 .expected = "a folder with config.json and "
                                             "model.safetensors",
                                 .found = "no such folder",
                                 .where = model_dir.string()});
  }
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  if (!file) {
    fail(ExitCode::model_files, {.what = "config.json",
                                 .expected = "a readable file",
                                 .found = "none",
                                 .where = path.string()});
  }
  return parse_model_config(text.str(), path.string());
}

}  // namespace shardlm
