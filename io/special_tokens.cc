#include "io/special_tokens.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "io/byte_alphabet.h"
#include "io/json.h"
#include "io/printable.h"

namespace shardlm {
namespace {

using nlohmann::json;

constexpr std::array<std::string_view, 7> kRoles = {
    "bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"};

using Roles = std::map<std::string_view, std::string>;  // role → text of the token

[[noreturn]] void refuse(const std::string& what, const std::string& expected,
                         const std::string& found, const std::string& where) {
  fail(ExitCode::model_files, {.what = what, .expected = expected, .found = found, .where = where});
}

// A token given as its text, or as an object that describes it.
AddedToken parse_named_token(const json& value, const std::string& where, const std::string& what) {
  if (value.is_object()) return parse_added_token(value, where, what);
  if (!value.is_string() || value.get_ref<const std::string&>().empty()) {
    refuse(what, "a text or an object", value.is_string() ? "an empty text" : value.type_name(),
           where);
  }
  AddedToken token;
  token.text = value.get<std::string>();
  return token;
}

void make_special(AddedToken token, const std::string& where, const std::string& what,
                  TokenizerFiles& files) {
  token.special = true;
  if (const auto known = files.added.find(token.text); known != files.added.end()) {
    known->second.special = true;
  } else if (const auto id = files.vocab.find(token.text)) {
    token.id = *id;
    add_token(std::move(token), where, files);
  } else {
    log::warning(where + ": " + what + " " + in_quotes(token.text) +
                 " has no id in the vocabulary: it is ordinary text");
  }
}

// additional_special_tokens (a list) and extra_special_tokens (a list, or an object of names).
void read_further_tokens(const json& root, const std::string& where, TokenizerFiles& files) {
  for (const std::string key : {"additional_special_tokens", "extra_special_tokens"}) {
    const auto found = root.find(key);
    if (found == root.end() || found->is_null()) continue;
    if (!found->is_array() && !found->is_object()) refuse(key, "a list", found->type_name(), where);
    for (const json& value : *found) {
      make_special(parse_named_token(value, where, key), where, key, files);
    }
  }
}

void read_named_tokens(const json& root, const std::string& where, TokenizerFiles& files,
                       Roles& roles) {
  for (const std::string_view role : kRoles) {
    const auto found = root.find(std::string(role));
    if (found == root.end() || found->is_null()) continue;
    AddedToken token = parse_named_token(*found, where, std::string(role));
    const bool first = roles.try_emplace(role, token.text).second;
    if (first) make_special(std::move(token), where, std::string(role), files);
  }
  read_further_tokens(root, where, files);
}

// "added_tokens_decoder": {"50256": {"content": …}}
void read_added_tokens_decoder(const json& root, const std::string& where, TokenizerFiles& files) {
  const auto found = root.find("added_tokens_decoder");
  if (found == root.end()) return;
  if (!found->is_object()) refuse("added_tokens_decoder", "an object", found->type_name(), where);
  for (const auto& [key, value] : found->items()) {
    AddedToken token = parse_added_token(value, where, "added_tokens_decoder: " + in_quotes(key));
    std::uint64_t id = 0;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
    if (error != std::errc{} || end != key.data() + key.size()) {
      refuse("added_tokens_decoder", "ids as keys", in_quotes(key), where);
    }
    token.id = parse_token_id(id, token.text, where);
    add_token(std::move(token), where, files);
  }
}

bool flag(const json& root, const std::string& key, bool otherwise, const std::string& where) {
  const auto found = root.find(key);
  if (found == root.end() || found->is_null()) return otherwise;
  if (!found->is_boolean()) refuse(key, "true or false", found->type_name(), where);
  return found->get<bool>();
}

void check_switches(const json& root, const std::string& where, const TokenizerFiles& files) {
  for (const std::string key : {"add_bos_token", "add_eos_token", "split_special_tokens"}) {
    if (flag(root, key, false, where))
      refuse(key, "false", "true, which is not implemented", where);
  }
  // tokenizer.json says itself what it is; vocab.json looks the same for tokenizers that differ.
  const auto found = root.find("tokenizer_class");
  if (files.source == TokenizerFiles::Source::tokenizer_json || found == root.end()) return;
  constexpr std::array<std::string_view, 5> kKnown = {
      "GPT2Tokenizer", "GPT2TokenizerFast", "PreTrainedTokenizer", "PreTrainedTokenizerFast",
      "TokenizersBackend"};
  const std::string name = found->is_string() ? found->get<std::string>() : found->dump();
  if (!found->is_null() && std::find(kKnown.begin(), kKnown.end(), name) == kKnown.end()) {
    refuse("tokenizer_class", "GPT2Tokenizer", in_quotes(name) + ", which is not implemented",
           where);
  }
}

void read_tokenizer_config(const std::filesystem::path& path, TokenizerFiles& files, Roles& roles) {
  const json root = read_json_file(path);
  if (!root.is_object()) refuse("tokenizer settings", "an object", root.type_name(), path);
  check_switches(root, path, files);
  files.add_prefix_space = flag(root, "add_prefix_space", files.add_prefix_space, path);
  read_added_tokens_decoder(root, path, files);
  read_named_tokens(root, path, files, roles);
}

void read_added_tokens_file(const std::filesystem::path& path, TokenizerFiles& files) {
  const json root = read_json_file(path);
  if (!root.is_object()) refuse("added tokens", "an object", root.type_name(), path);
  for (const auto& [text, id] : root.items()) {
    if (text.empty()) refuse("an added token", "a text", "an empty one", path);
    AddedToken token;
    token.text = text;
    token.id = parse_token_id(id, text, path);
    token.normalized = true;  // as Hugging Face has it for those that nothing else describes
    if (!files.added.contains(text)) add_token(std::move(token), path, files);
  }
}

}  // namespace

void add_token(AddedToken token, const std::string& where, TokenizerFiles& files) {
  files.vocab.add(token.text, token.id, where);
  std::string text = token.text;
  files.added.insert_or_assign(std::move(text), std::move(token));
}

void read_special_token_files(const std::filesystem::path& folder, TokenizerFiles& files) {
  Roles roles;
  if (const auto path = folder / "added_tokens.json"; is_there(path)) {
    read_added_tokens_file(path, files);
  }
  if (const auto path = folder / "tokenizer_config.json"; is_there(path)) {
    read_tokenizer_config(path, files, roles);
  }
  if (const auto path = folder / "special_tokens_map.json"; is_there(path)) {
    const json root = read_json_file(path);
    if (!root.is_object()) refuse("special tokens", "an object", root.type_name(), path);
    read_named_tokens(root, path, files, roles);
  }
  const auto eos = roles.find("eos_token");
  files.end_of_text = files.vocab.find(eos == roles.end() ? "<|endoftext|>" : eos->second);
  const auto unk = roles.find("unk_token");
  if (files.source == TokenizerFiles::Source::vocab_and_merges && unk != roles.end()) {
    files.unknown = files.vocab.find(unk->second);
  }
}

void add_unlisted_special_tokens(TokenizerFiles& files) {
  std::vector<bool> made(static_cast<std::size_t>(files.vocab.id_limit()));
  for (unsigned byte = 0; byte < 256; ++byte) {
    const auto id = files.vocab.find(byte_symbol(static_cast<unsigned char>(byte)));
    if (id) made[static_cast<std::size_t>(*id)] = true;
  }
  for (const MergeRule& rule : files.merges) made[static_cast<std::size_t>(rule.result)] = true;
  for (std::int32_t id = 0; id < files.vocab.id_limit(); ++id) {
    const std::string* text = files.vocab.text(id);
    if (text == nullptr || text->empty() || made[static_cast<std::size_t>(id)]) continue;
    if (files.added.contains(*text) || bytes_of_symbols(*text).value_or(*text) != *text) continue;
    AddedToken token;
    token.text = *text;
    token.id = id;
    token.special = true;
    files.added.emplace(*text, std::move(token));
  }
}

}  // namespace shardlm
