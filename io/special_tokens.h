// Which tokens are special, and what for.
#pragma once

#include <filesystem>
#include <string>

#include "io/tokenizer_files.h"

namespace shardlm {

/// Adds to `files.added`, in the place of the one with the same text, and to the vocabulary.
void add_token(AddedToken token, const std::string& where, TokenizerFiles& files);

/// Reads added_tokens.json, tokenizer_config.json and special_tokens_map.json, as far as they are
/// there, into added, unknown, end_of_text and add_prefix_space. Of unk_token only for vocab.json:
/// tokenizer.json has its own. A special token that has no id is told in a warning and ignored.
/// What changes ids and is not implemented (add_bos_token: true, …) is refused by name.
void read_special_token_files(const std::filesystem::path& folder, TokenizerFiles& files);

/// Makes special each entry of the vocabulary that no byte and no merge makes, if it is written as
/// it reads: "<|endoftext|>" is; "Ġlowest" stands for " lowest" and stays an ordinary token, which
/// just never comes out of encoding (as with Hugging Face). For vocab.json, which cannot say which
/// of its entries are special; tokenizer.json lists them.
void add_unlisted_special_tokens(TokenizerFiles& files);

}  // namespace shardlm
