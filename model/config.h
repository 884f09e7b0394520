// What a model is, read from config.json in the Hugging Face layout.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "backend/backend.h"

namespace shardlm {

struct ModelConfig {
  std::string family;  ///< "gpt2"
  std::int64_t n_layer = 0, n_embd = 0, n_head = 0;
  std::int64_t n_inner = 0;      ///< MLP width
  std::int64_t n_positions = 0;  ///< longest sequence
  std::int64_t vocab_size = 0;
  float layer_norm_epsilon = 1e-5F;
  Activation activation = Activation::gelu_tanh;
  bool scale_attn_weights = true;                ///< scores times 1 / sqrt(head_dim)
  bool scale_attn_by_inverse_layer_idx = false;  ///< scores also times 1 / (layer + 1)
  bool tie_word_embeddings = true;
  std::optional<std::int32_t> eos_token_id;

  std::int64_t head_dim() const { return n_embd / n_head; }
  std::vector<std::string> warnings;  ///< fields that were not used
};

/// Reads and checks model_dir/config.json. A field that changes the result is honoured or refused
/// by name: Error(model_files). Fields that we do not know are named in one warning.
ModelConfig read_model_config(const std::filesystem::path& model_dir);
/// The same from the text of the file; `where` names it in messages.
ModelConfig parse_model_config(std::string_view text, const std::string& where);

}  // namespace shardlm
