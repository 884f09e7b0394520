#include "io/pretokenizer.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace shardlm {
namespace {

// utf8proc has no White_Space property. Beside the categories Zs, Zl and Zp it has six controls.
bool is_white_space(char32_t c) {
  return (c >= 0x9 && c <= 0xD) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
         c == 0x3000;
}

CharClass look_up(char32_t c) {
  if (is_white_space(c)) return CharClass::space;
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(c))) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
      return CharClass::letter;
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_NO:
      return CharClass::number;
    default:
      return CharClass::other;
  }
}

// Bytes at the start of `text` whose characters are all of class `kind`.
std::size_t run_length(std::string_view text, CharClass kind) {
  std::size_t length = 0;
  while (length < text.size()) {
    const Utf8Char c = first_utf8_char(text.substr(length));
    if (char_class(c) != kind) break;
    length += c.length;
  }
  return length;
}

// Bytes of 's|'t|'re|'ve|'m|'ll|'d at the start of `text`: 0 if none.
std::size_t contraction_length(std::string_view text) {
  if (text[0] != '\'') return 0;
  constexpr std::array<std::string_view, 7> kEndings = {"s", "t", "re", "ve", "m", "ll", "d"};
  const auto found = std::find_if(
      kEndings.begin(), kEndings.end(),
      [text](std::string_view ending) { return text.substr(1, ending.size()) == ending; });
  return found == kEndings.end() ? 0 : 1 + found->size();
}

// Bytes of \s+(?!\S)|\s+ : a run of white space leaves its last character to what follows it,
// unless nothing follows or it has only that one.
std::size_t white_space_length(std::string_view text) {
  std::size_t length = 0;
  std::size_t without_last = 0;
  while (length < text.size()) {
    const Utf8Char c = first_utf8_char(text.substr(length));
    if (char_class(c) != CharClass::space) return without_last > 0 ? without_last : length;
    without_last = length;
    length += c.length;
  }
  return length;
}

}  // namespace

CharClass char_class(char32_t code_point) {
  static const auto ascii = [] {
    std::array<CharClass, 128> table{};
    for (std::uint32_t c = 0; c < table.size(); ++c) table[c] = look_up(c);
    return table;
  }();
  return code_point < ascii.size() ? ascii[code_point] : look_up(code_point);
}

CharClass char_class(const Utf8Char& c) {
  return c.kind == Utf8Char::Kind::character ? char_class(c.code_point) : CharClass::other;
}

std::string_view first_piece(std::string_view text) {
  if (const std::size_t length = contraction_length(text); length > 0)
    return text.substr(0, length);
  const std::size_t space = text[0] == ' ' && text.size() > 1 ? 1 : 0;
  const std::string_view word = text.substr(space);
  const CharClass kind = char_class(first_utf8_char(word));
  if (kind == CharClass::space) return text.substr(0, white_space_length(text));
  return text.substr(0, space + run_length(word, kind));
}

}  // namespace shardlm
