// Prompts as the user gave them, turned into checked token ids.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "launcher/options.h"
#include "launcher/session.h"

namespace shardlm {

/// The bytes of a file or of standard input; Error(usage) if they cannot be read.
std::string read_text(const PromptSource& source);

/// The ids of one prompt or text. A text needs the model's tokenizer: Error(model_files) without.
std::vector<std::int32_t> source_ids(const Session& session, const PromptSource& source,
                                     bool no_special);

/// Ids that the embedding has: Error(usage) naming the first that it has not.
void check_ids(const Session& session, const std::vector<std::int32_t>& ids,
               const std::string& where);

/// A prompt for generation: an empty one starts from the end-of-text id; a too long one is refused
/// with both numbers.
std::vector<std::int32_t> prompt_ids(const Session& session, const PromptSource& source,
                                     bool no_special, const std::string& where);

}  // namespace shardlm
