// tokenizer.json, as the Hugging Face tokenizers library writes it.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "io/tokenizer_files.h"

namespace shardlm {

/// Fills vocab, merges, added, unknown and the two switches of `files`. Implemented are byte-level
/// BPE models without normalizer; whatever else changes ids is refused by name.
void read_tokenizer_json(const nlohmann::json& root, const std::string& where,
                         TokenizerFiles& files);

/// Its "added_tokens" only.
void read_added_tokens_array(const nlohmann::json& root, const std::string& where,
                             TokenizerFiles& files);

}  // namespace shardlm
