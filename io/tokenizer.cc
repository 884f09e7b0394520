#include "io/tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/error.h"
#include "io/byte_alphabet.h"
#include "io/pretokenizer.h"

namespace shardlm {
namespace {

std::array<std::int32_t, 256> byte_ids(const Vocab& vocab) {
  std::array<std::int32_t, 256> ids{};
  for (unsigned byte = 0; byte < ids.size(); ++byte) {
    ids[byte] = vocab.find(byte_symbol(static_cast<unsigned char>(byte))).value_or(Bpe::kNoToken);
  }
  return ids;
}

std::vector<AddedToken> values(const std::map<std::string, AddedToken>& added) {
  std::vector<AddedToken> tokens;
  for (const auto& [text, token] : added) tokens.push_back(token);
  return tokens;
}

}  // namespace

std::unique_ptr<Tokenizer> Tokenizer::load(const std::filesystem::path& model_dir) {
  auto files = read_tokenizer_files(model_dir);
  return files ? std::make_unique<Tokenizer>(std::move(*files)) : nullptr;
}

Tokenizer::Tokenizer(TokenizerFiles files)
    : folder_(std::move(files.folder)),
      bpe_(byte_ids(files.vocab), std::move(files.merges)),
      added_(values(files.added)),
      unknown_(files.unknown),
      end_of_text_(files.end_of_text),
      add_prefix_space_(files.add_prefix_space),
      split_pieces_(files.split_pieces) {
  for (std::int32_t id = 0; id < files.vocab.id_limit(); ++id) {
    Token& token = tokens_.emplace_back();
    const std::string* text = files.vocab.text(id);
    if (text == nullptr) continue;
    const auto added = files.added.find(*text);
    const bool literal = added != files.added.end();
    token = {.offset = arena_.size(), .exists = true, .special = literal && added->second.special};
    arena_ += literal ? *text : bytes_of_symbols(*text).value_or(*text);
    token.length = arena_.size() - token.offset;
  }
}

std::vector<std::int32_t> Tokenizer::encode(std::string_view bytes, SpecialText special) const {
  std::vector<std::int32_t> ids;
  Bpe::Scratch scratch;
  if (special == SpecialText::plain) {
    encode_ordinary(bytes, scratch, ids);
    return ids;
  }
  for (const auto& part : added_.split(bytes)) {
    if (part.id) {
      ids.push_back(*part.id);
    } else {
      encode_ordinary(part.text, scratch, ids);
    }
  }
  return ids;
}

void Tokenizer::encode_ordinary(std::string_view text, Bpe::Scratch& scratch,
                                std::vector<std::int32_t>& ids) const {
  std::string prefixed;
  if (add_prefix_space_ && !text.empty() && text[0] != ' ') {
    prefixed.append(" ").append(text);
    text = prefixed;
  }
  while (!text.empty()) {
    const std::string_view piece = split_pieces_ ? first_piece(text) : text;
    encode_piece(piece, scratch, ids);
    text.remove_prefix(piece.size());
  }
}

void Tokenizer::encode_piece(std::string_view piece, Bpe::Scratch& scratch,
                             std::vector<std::int32_t>& ids) const {
  const std::size_t before = ids.size();
  bpe_.encode(piece, scratch, ids);
  const std::span added = std::span(ids).subspan(before);
  if (std::find(added.begin(), added.end(), Bpe::kNoToken) != added.end()) {
    replace_unknown(piece, added);
  }
}

void Tokenizer::replace_unknown(std::string_view piece, std::span<std::int32_t> ids) const {
  std::size_t at = 0;  // the place in the piece of the token
  for (std::int32_t& id : ids) {
    if (id != Bpe::kNoToken) {
      at += token_bytes(id).size();
      continue;
    }
    if (!unknown_) {
      const auto byte = static_cast<unsigned char>(piece[at]);
      fail(ExitCode::usage, {.what = fmt::format("text to tokenize: the byte 0x{:02X}", byte),
                             .expected = "one that the tokenizer has",
                             .found = "no token for it, and no unknown token",
                             .where = folder_});
    }
    id = *unknown_;
    ++at;
  }
}

std::string Tokenizer::decode(std::span<const std::int32_t> ids) const {
  std::string bytes;
  for (const std::int32_t id : ids) bytes += token_bytes(id);
  return bytes;
}

bool Tokenizer::has(std::int32_t id) const {
  return id >= 0 && id < id_limit() && tokens_[static_cast<std::size_t>(id)].exists;
}

std::string_view Tokenizer::token_bytes(std::int32_t id) const {
  if (!has(id)) {
    fail(ExitCode::usage, {.what = fmt::format("token id {}", id),
                           .expected = fmt::format("one of the tokenizer's, below {}", id_limit()),
                           .where = folder_});
  }
  const Token& token = tokens_[static_cast<std::size_t>(id)];
  return std::string_view(arena_).substr(token.offset, token.length);
}

bool Tokenizer::is_special(std::int32_t id) const {
  return has(id) && tokens_[static_cast<std::size_t>(id)].special;
}

}  // namespace shardlm
