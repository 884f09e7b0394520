// The printable characters that stand for bytes in GPT-2's tokenizer files.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace shardlm {

/// The character (UTF-8) of a byte: itself for '!'…'~', U+00A1…U+00AC and U+00AE…U+00FF; the other
/// 68 bytes have, in ascending order, U+0100 onwards (a space is "Ġ", a newline "Ċ").
/// Source: bytes_to_unicode() of the published GPT-2 encoder.
std::string byte_symbol(unsigned char byte);

/// The bytes that a token's text stands for; none if it has a character outside the alphabet.
std::optional<std::string> bytes_of_symbols(std::string_view text);

}  // namespace shardlm
