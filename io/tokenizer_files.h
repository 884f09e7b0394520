// What a model folder says about its tokenizer: checked, and independent of how it is spelled.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "io/added_tokens.h"
#include "io/bpe.h"
#include "io/vocab.h"

namespace shardlm {

struct TokenizerFiles {
  enum class Source { vocab_and_merges, tokenizer_json };

  std::string folder;  ///< for messages
  Source source = Source::vocab_and_merges;
  Vocab vocab;                              ///< the added tokens too
  std::vector<MergeRule> merges;            ///< by rank
  std::map<std::string, AddedToken> added;  ///< by text
  std::optional<std::int32_t> unknown;      ///< what stands for a byte without token
  std::optional<std::int32_t> end_of_text;  ///< the configured one, else <|endoftext|>
  bool add_prefix_space = false;  ///< ordinary text that does not begin with a space gets one
  bool split_pieces = true;       ///< whether to split by GPT-2's pattern before merging
};

/// Reads vocab.json and merges.txt, or tokenizer.json when neither is there; none if there is none
/// of the three. Error(model_files) for what is bad, incomplete or not implemented.
///
/// Added tokens come from tokenizer.json (beside vocab.json only its "added_tokens" are read),
/// added_tokens.json, tokenizer_config.json and special_tokens_map.json; where two describe one
/// token, the later has its way. See io/special_tokens.h for what else is special.
std::optional<TokenizerFiles> read_tokenizer_files(const std::filesystem::path& folder);

/// Whether a file, or a link to one, has this name. One that cannot be looked at counts: opening it
/// will say why.
bool is_there(const std::filesystem::path& path);

}  // namespace shardlm
