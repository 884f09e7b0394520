// UTF-8 as the Unicode Standard defines it (table 3-7), for bytes that may be anything.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace shardlm {

/// What stands at the start of some bytes.
struct Utf8Char {
  enum class Kind {
    character,   ///< one well-formed character: no surrogate, no overlong form, at most U+10FFFF
    invalid,     ///< bytes that begin no character, whatever follows
    unfinished,  ///< the bytes end inside what may still become a character
  };
  Kind kind = Kind::invalid;
  char32_t code_point = 0;  ///< of a character
  std::size_t length = 0;   ///< its bytes; else those of the maximal subpart (Unicode 3.9, D93b)
};

/// Looks at the first bytes of `bytes`, which is not empty.
Utf8Char first_utf8_char(std::string_view bytes);

/// True if all of `bytes` are well-formed characters.
bool is_valid_utf8(std::string_view bytes);

/// The text with each maximal invalid part replaced by one U+FFFD ("substitution of maximal
/// subparts", Unicode 3.9, as web browsers and Python's errors="replace" do).
std::string sanitize_utf8(std::string_view bytes);

/// sanitize_utf8 for bytes that come in pieces: the concatenation of everything that push() and
/// finish() return is sanitize_utf8 of all bytes, and every part of it is valid UTF-8 by itself.
class Utf8Stream {
 public:
  /// What can be written now. At most three bytes, an unfinished character, are held back.
  std::string push(std::string_view bytes);
  /// The end of the bytes: U+FFFD if a character was left unfinished, else nothing.
  std::string finish();

 private:
  std::string held_;
};

}  // namespace shardlm
