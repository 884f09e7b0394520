// Shapes of models as people write them: "gpt2-xl", "n_layer=6,n_embd=512,n_head=8".
#pragma once

#include <string>

#include "model/config.h"

namespace shardlm {

/// A size's name, dimensions, or a name and dimensions that differ from it, with commas between
/// them. What is not given is the size's, without one GPT-2's; n_inner is then 4 n_embd. Error(usage) with `where` (the
/// flag) for names that are unknown or given twice, and for numbers that fit no model.
ModelConfig parse_shape(const std::string& text, const std::string& where);

/// Elements of all weights.
std::int64_t parameter_count(const ModelConfig& config);

}  // namespace shardlm
