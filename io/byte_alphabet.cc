#include "io/byte_alphabet.h"

#include <array>
#include <cstddef>

#include "io/utf8.h"

namespace shardlm {
namespace {

struct Alphabet {
  std::array<char32_t, 256> symbol_of{};
  std::array<int, 0x144> byte_of{};  // by code point; -1 for those outside
};

bool stands_for_itself(unsigned byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

const Alphabet& alphabet() {
  static const Alphabet made = [] {
    Alphabet a;
    a.byte_of.fill(-1);
    char32_t next = 0x100;
    for (unsigned byte = 0; byte < 256; ++byte) {
      const char32_t symbol = stands_for_itself(byte) ? char32_t{byte} : next++;
      a.symbol_of[byte] = symbol;
      a.byte_of[symbol] = static_cast<int>(byte);
    }
    return a;
  }();
  return made;
}

}  // namespace

std::string byte_symbol(unsigned char byte) {
  const char32_t symbol = alphabet().symbol_of[byte];
  if (symbol < 0x80) return std::string(1, static_cast<char>(symbol));
  return {static_cast<char>(0xC0 | symbol >> 6), static_cast<char>(0x80 | (symbol & 0x3F))};
}

std::optional<std::string> bytes_of_symbols(std::string_view text) {
  const auto& byte_of = alphabet().byte_of;
  std::string bytes;
  while (!text.empty()) {
    const Utf8Char c = first_utf8_char(text);
    const bool known = c.kind == Utf8Char::Kind::character && c.code_point < byte_of.size();
    if (!known || byte_of[c.code_point] < 0) return std::nullopt;
    bytes += static_cast<char>(byte_of[c.code_point]);
    text.remove_prefix(c.length);
  }
  return bytes;
}

}  // namespace shardlm
