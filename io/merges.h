// The list of merges of a byte-pair tokenizer, as files spell it.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "io/bpe.h"
#include "io/vocab.h"

namespace shardlm {

/// merges.txt: one "left right" a line, by rank. Only the first line may be a comment
/// ("#version…"): later ones may be merges that start with '#'. Lines may end in CR LF; the last
/// one needs no end; empty lines are allowed at the end of the file and nowhere else.
///
/// Error(model_files), naming file and line, for a line that is not two parts with one space
/// between, for a part or a result (the parts joined) that is no token, for a merge given twice.
std::vector<MergeRule> parse_merges_text(std::string_view text, const Vocab& vocab,
                                         const std::string& where);

/// The "merges" of tokenizer.json: an array of "left right" or of ["left", "right"], which allows
/// spaces inside tokens. Errors as above.
std::vector<MergeRule> parse_merges_json(const nlohmann::json& merges, const Vocab& vocab,
                                         const std::string& where);

}  // namespace shardlm
