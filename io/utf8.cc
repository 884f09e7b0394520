#include "io/utf8.h"

namespace shardlm {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

struct ByteRange {
  unsigned first, last;
  bool holds(unsigned byte) const { return first <= byte && byte <= last; }
};

// Number of bytes of the character that `lead` begins (0: none) and what its second byte may be:
// the limits are where overlong forms, surrogates and values above U+10FFFF are kept out.
struct Lead {
  std::size_t length;
  ByteRange second;
};

Lead lead_of(unsigned lead) {
  constexpr ByteRange kAny{0x80, 0xBF};
  if (lead < 0x80) return {1, kAny};
  if (lead < 0xC2) return {0, kAny};
  if (lead < 0xE0) return {2, kAny};
  if (lead == 0xE0) return {3, {0xA0, 0xBF}};
  if (lead == 0xED) return {3, {0x80, 0x9F}};
  if (lead < 0xF0) return {3, kAny};
  if (lead == 0xF0) return {4, {0x90, 0xBF}};
  if (lead < 0xF4) return {4, kAny};
  if (lead == 0xF4) return {4, {0x80, 0x8F}};
  return {0, kAny};
}

// Appends the good text of `bytes`. Returns how many bytes at its end are unfinished.
std::size_t append_sanitized(std::string_view bytes, std::string& to) {
  while (!bytes.empty()) {
    const Utf8Char c = first_utf8_char(bytes);
    if (c.kind == Utf8Char::Kind::unfinished) break;
    to += c.kind == Utf8Char::Kind::character ? bytes.substr(0, c.length) : kReplacement;
    bytes.remove_prefix(c.length);
  }
  return bytes.size();
}

}  // namespace

Utf8Char first_utf8_char(std::string_view bytes) {
  using Kind = Utf8Char::Kind;
  const auto byte = [bytes](std::size_t i) {
    return unsigned{static_cast<unsigned char>(bytes[i])};
  };
  const Lead lead = lead_of(byte(0));
  if (lead.length == 1) return {Kind::character, byte(0), 1};
  if (lead.length == 0) return {Kind::invalid, 0, 1};
  char32_t value = byte(0) & (0xFFU >> (lead.length + 1));
  for (std::size_t i = 1; i < lead.length; ++i) {
    if (i == bytes.size()) return {Kind::unfinished, 0, i};
    const ByteRange allowed = i == 1 ? lead.second : ByteRange{0x80, 0xBF};
    if (!allowed.holds(byte(i))) return {Kind::invalid, 0, i};
    value = value << 6 | (byte(i) & 0x3FU);
  }
  return {Kind::character, value, lead.length};
}

bool is_valid_utf8(std::string_view bytes) {
  while (!bytes.empty()) {
    const Utf8Char c = first_utf8_char(bytes);
    if (c.kind != Utf8Char::Kind::character) return false;
    bytes.remove_prefix(c.length);
  }
  return true;
}

std::string sanitize_utf8(std::string_view bytes) {
  std::string text;
  text.reserve(bytes.size());
  if (append_sanitized(bytes, text) > 0) text += kReplacement;
  return text;
}

std::string Utf8Stream::push(std::string_view bytes) {
  held_ += bytes;
  std::string text;
  const std::size_t unfinished = append_sanitized(held_, text);
  held_.erase(0, held_.size() - unfinished);
  return text;
}

std::string Utf8Stream::finish() {
  std::string text(held_.empty() ? std::string_view{} : kReplacement);
  held_.clear();
  return text;
}

}  // namespace shardlm
