// Text to token ids and back, exactly as GPT-2 does it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/added_tokens.h"
#include "io/bpe.h"
#include "io/tokenizer_files.h"

namespace shardlm {

/// Whether the text of a special token ("<|endoftext|>") in a text becomes its id.
enum class SpecialText {
  recognise,  ///< yes, as in Hugging Face
  plain,      ///< no: it is ordinary text, and so are added tokens that are not special
};

/// Byte-level BPE. Texts are any bytes: those that are not valid UTF-8 are encoded as the bytes
/// that they are. decode(encode(text)) is the text, except that
///   - added tokens with lstrip or rstrip take white space away,
///   - add_prefix_space adds a space before ordinary text,
///   - a byte without token becomes the unknown token, where the files configure one (GPT-2's
///     vocabulary has all 256 bytes). This is what Hugging Face's GPT2Tokenizer does in
///     Transformers 4, and its tokenizers library with an unk_token; without one it drops the byte,
///     and here encode() fails.
/// Const members may be called from several threads.
class Tokenizer {
 public:
  /// The tokenizer of a model folder (see read_tokenizer_files() for the files and their rules);
  /// null if it has none. Error(model_files) if the files are bad, incomplete, or ask for what is
  /// not implemented.
  static std::unique_ptr<Tokenizer> load(const std::filesystem::path& model_dir);

  explicit Tokenizer(TokenizerFiles files);

  /// Time n log n in the bytes. No text gives no ids. Error(usage) naming a byte that has no token.
  std::vector<std::int32_t> encode(std::string_view bytes, SpecialText special) const;

  /// The bytes of the ids one after another, which may be no valid UTF-8 (see Utf8Stream); special
  /// tokens are their text. Hugging Face's clean-up of spaces is not done. Error(usage) naming an
  /// id without token.
  std::string decode(std::span<const std::int32_t> ids) const;

  /// Whether the id, any number, has a token. Others are never to be sampled.
  bool has(std::int32_t id) const;
  /// Error(usage) if it has none. Valid as long as the tokenizer.
  std::string_view token_bytes(std::int32_t id) const;
  /// Whether the id is a token that is special by the files or by the rule of
  /// add_unlisted_special_tokens().
  bool is_special(std::int32_t id) const;
  /// Largest id + 1.
  std::int32_t id_limit() const { return static_cast<std::int32_t>(tokens_.size()); }
  /// The token that ends a text: the configured eos_token, else <|endoftext|>, if it has an id.
  std::optional<std::int32_t> end_of_text() const { return end_of_text_; }

 private:
  struct Token {
    std::size_t offset = 0;  // in arena_
    std::size_t length = 0;
    bool exists = false;
    bool special = false;
  };

  void encode_ordinary(std::string_view text, Bpe::Scratch& scratch,
                       std::vector<std::int32_t>& ids) const;
  void encode_piece(std::string_view piece, Bpe::Scratch& scratch,
                    std::vector<std::int32_t>& ids) const;
  void replace_unknown(std::string_view piece, std::span<std::int32_t> ids) const;

  std::string folder_;
  Bpe bpe_;
  AddedTokenMatcher added_;
  std::optional<std::int32_t> unknown_;
  std::optional<std::int32_t> end_of_text_;
  bool add_prefix_space_;
  bool split_pieces_;
  std::string arena_;  // the bytes of all tokens
  std::vector<Token> tokens_;
};

}  // namespace shardlm
