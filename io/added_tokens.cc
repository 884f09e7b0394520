#include "io/added_tokens.h"

#include <utf8proc.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "io/pretokenizer.h"
#include "io/printable.h"
#include "io/utf8.h"

namespace shardlm {
namespace {

// The character that ends `text`: an invalid one of length 1 if its last bytes are none.
Utf8Char last_utf8_char(std::string_view text) {
  for (std::size_t length = 1; length <= std::min<std::size_t>(4, text.size()); ++length) {
    const Utf8Char c = first_utf8_char(text.substr(text.size() - length));
    if (c.kind == Utf8Char::Kind::character && c.length == length) return c;
  }
  return {Utf8Char::Kind::invalid, 0, 1};
}

bool is_space(const Utf8Char& c) { return char_class(c) == CharClass::space; }

// \w of Unicode's regular expressions (UTS 18, annex C): Alphabetic, marks, decimal digits,
// connectors, joiners. utf8proc has no Alphabetic: beside categories, these are letters in circles
// and squares.
bool is_word_char(const Utf8Char& c) {
  if (c.kind != Utf8Char::Kind::character) return false;
  const char32_t p = c.code_point;
  if (p == 0x200C || p == 0x200D) return true;
  if ((p >= 0x24B6 && p <= 0x24E9) || (p >= 0x1F130 && p <= 0x1F149) ||
      (p >= 0x1F150 && p <= 0x1F169) || (p >= 0x1F170 && p <= 0x1F189)) {
    return true;
  }
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(p))) {
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_PC:
      return true;
    default:
      return char_class(c) == CharClass::letter;
  }
}

bool stands_alone(std::string_view before, std::string_view after) {
  return (before.empty() || !is_word_char(last_utf8_char(before))) &&
         (after.empty() || !is_word_char(first_utf8_char(after)));
}

std::size_t spaces_at_end(std::string_view text) {
  std::size_t length = 0;
  while (length < text.size()) {
    const Utf8Char c = last_utf8_char(text.substr(0, text.size() - length));
    if (!is_space(c)) break;
    length += c.length;
  }
  return length;
}

std::size_t spaces_at_start(std::string_view text) {
  std::size_t length = 0;
  while (length < text.size()) {
    const Utf8Char c = first_utf8_char(text.substr(length));
    if (!is_space(c)) break;
    length += c.length;
  }
  return length;
}

std::size_t bucket(std::string_view text, std::size_t at) {
  return static_cast<unsigned char>(text[at]);
}

}  // namespace

AddedToken parse_added_token(const nlohmann::json& object, const std::string& where,
                             const std::string& what) {
  const auto refuse = [&](const std::string& expected, const std::string& found) {
    fail(ExitCode::model_files,
         {.what = what, .expected = expected, .found = found, .where = where});
  };
  if (!object.is_object()) refuse("an object", object.type_name());
  AddedToken token;
  const std::map<std::string_view, bool*> flags = {{"special", &token.special},
                                                   {"normalized", &token.normalized},
                                                   {"single_word", &token.single_word},
                                                   {"lstrip", &token.lstrip},
                                                   {"rstrip", &token.rstrip}};
  for (const auto& [key, value] : object.items()) {
    if (const auto flag = flags.find(key); flag != flags.end()) {
      if (!value.is_boolean()) refuse("true or false for \"" + key + "\"", value.type_name());
      *flag->second = value.get<bool>();
    } else if (key == "content") {
      if (!value.is_string()) refuse("a text as \"content\"", value.type_name());
      token.text = value.get<std::string>();
    } else if (key != "id" && key != "__type") {
      refuse("fields of an added token", "the unknown field " + in_quotes(key));
    }
  }
  if (token.text.empty()) refuse("a text as \"content\"", "none");
  // Its default: special tokens are looked for in the text as it stands.
  if (!object.contains("normalized")) token.normalized = !token.special;
  return token;
}

AddedTokenMatcher::AddedTokenMatcher(std::vector<AddedToken> tokens) {
  std::stable_sort(tokens.begin(), tokens.end(), [](const AddedToken& a, const AddedToken& b) {
    return a.text.size() > b.text.size();
  });
  for (AddedToken& token : tokens) {
    auto& table = passes_[token.normalized ? 1 : 0];
    table[bucket(token.text, 0)].push_back(std::move(token));
  }
}

const AddedToken* AddedTokenMatcher::match(const Table& table, std::string_view text,
                                           std::size_t at) {
  for (const AddedToken& token : table[bucket(text, at)]) {
    if (text.substr(at, token.text.size()) == token.text) return &token;
  }
  return nullptr;
}

void AddedTokenMatcher::split_once(const Table& table, std::string_view text,
                                   std::vector<Part>& parts) {
  std::size_t done = 0;  // what is before it is in `parts`
  std::size_t at = 0;
  while (at < text.size()) {
    const AddedToken* token = match(table, text, at);
    if (token == nullptr) {
      ++at;
      continue;
    }
    std::size_t begin = at;
    std::size_t end = at + token->text.size();
    at = end;
    if (token->single_word && !stands_alone(text.substr(0, begin), text.substr(end))) continue;
    if (token->lstrip) begin -= spaces_at_end(text.substr(done, begin - done));
    if (token->rstrip) end += spaces_at_start(text.substr(end));
    if (begin > done) parts.push_back({text.substr(done, begin - done), std::nullopt});
    parts.push_back({text.substr(begin, end - begin), token->id});
    at = done = end;
  }
  if (done < text.size()) parts.push_back({text.substr(done), std::nullopt});
}

std::vector<AddedTokenMatcher::Part> AddedTokenMatcher::split(std::string_view text) const {
  std::vector<Part> first;
  split_once(passes_[0], text, first);
  std::vector<Part> parts;
  for (const Part& part : first) {
    if (part.id) {
      parts.push_back(part);
    } else {
      split_once(passes_[1], part.text, parts);
    }
  }
  return parts;
}

}  // namespace shardlm
