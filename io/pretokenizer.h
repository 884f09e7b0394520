// GPT-2's split of a text into the pieces inside which byte pairs are merged.
#pragma once

#include <string_view>

#include "io/utf8.h"

namespace shardlm {

/// What the split pattern asks of a character.
enum class CharClass { letter, number, space, other };

/// letter: \p{L} (categories Lu Ll Lt Lm Lo); number: \p{N} (Nd Nl No); space: Unicode's
/// White_Space, 25 characters. Categories are those of the utf8proc library's Unicode version.
CharClass char_class(char32_t code_point);
/// Bytes that are not UTF-8 are symbols of class other.
CharClass char_class(const Utf8Char& c);

/// The first match, at the start of `text` (not empty), of the pattern published with GPT-2:
///   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
/// Alternatives are tried in this order, each as long as it can be. It always matches, so that
/// calling this until nothing is left cuts the whole text. The end of `text` counts as the text's.
std::string_view first_piece(std::string_view text);

}  // namespace shardlm
