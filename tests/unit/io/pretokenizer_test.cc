#include "io/pretokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

namespace shardlm {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::vector<std::string> pieces(std::string_view text) {
  std::vector<std::string> all;
  while (!text.empty()) {
    const std::string_view piece = first_piece(text);
    if (piece.empty()) return {"an empty piece"};
    all.emplace_back(piece);
    text.remove_prefix(piece.size());
  }
  return all;
}

// Expected pieces: Python, regex.findall(PATTERN, text) with the published pattern.
TEST(Pretokenizer, splits_words_numbers_and_symbols) {
  EXPECT_THAT(pieces(""), IsEmpty());
  EXPECT_THAT(pieces("Hello, world!"), ElementsAre("Hello", ",", " world", "!"));
  EXPECT_THAT(pieces("foo_bar1 22.5"), ElementsAre("foo", "_", "bar", "1", " 22", ".", "5"));
  EXPECT_THAT(pieces(" München 你好，世界"), ElementsAre(" München", " 你好", "，", "世界"));
  EXPECT_THAT(pieces("1½² Ⅷ〇"), ElementsAre("1½²", " Ⅷ〇"));
  EXPECT_THAT(pieces("e\u0301a"), ElementsAre("e", "\u0301", "a"));
}

TEST(Pretokenizer, tries_contractions_first_and_in_lower_case_only) {
  EXPECT_THAT(pieces("it's we'll've"), ElementsAre("it", "'s", " we", "'ll", "'ve"));
  EXPECT_THAT(pieces("don'THAT"), ElementsAre("don", "'", "THAT"));
  EXPECT_THAT(pieces("'tis 'tis"), ElementsAre("'t", "is", " '", "tis"));
  EXPECT_THAT(pieces("'''s 'l 'r"), ElementsAre("'''", "s", " '", "l", " '", "r"));
  EXPECT_THAT(pieces("'"), ElementsAre("'"));
}

TEST(Pretokenizer, leaves_the_last_white_space_to_what_follows) {
  EXPECT_THAT(pieces("a  b"), ElementsAre("a", " ", " b"));
  EXPECT_THAT(pieces("a  "), ElementsAre("a", "  "));
  EXPECT_THAT(pieces("a \n\n b"), ElementsAre("a", " \n\n", " b"));
  EXPECT_THAT(pieces("a\n\nb"), ElementsAre("a", "\n", "\n", "b"));
  EXPECT_THAT(pieces("a\tb\t "), ElementsAre("a", "\t", "b", "\t "));
  EXPECT_THAT(pieces(" "), ElementsAre(" "));
  EXPECT_THAT(pieces("a\u00a0 b\u3000\u3000c"),
              ElementsAre("a", "\u00a0", " b", "\u3000", "\u3000", "c"));
}

TEST(Pretokenizer, white_space_is_unicodes_and_nothing_else) {
  const std::u32string spaces =
      U"\x9\xA\xB\xC\xD\x20\x85\xA0\x1680\x2000\x2001\x2002\x2003\x2004\x2005\x2006\x2007\x2008"
      U"\x2009"
      U"\x200A\x2028\x2029\x202F\x205F\x3000";
  std::u32string found;
  for (char32_t c = 0; c <= 0x10FFFF; ++c) {
    if (char_class(c) == CharClass::space) found += c;
  }
  EXPECT_TRUE(found == spaces);
}

// Characters of each general category, by the Unicode Character Database.
TEST(Pretokenizer, classes_follow_the_general_categories) {
  const auto expect_class = [](CharClass expected, const std::u32string& characters) {
    for (const char32_t c : characters) {
      EXPECT_EQ(char_class(c), expected) << std::hex << static_cast<std::uint32_t>(c);
    }
  };
  expect_class(CharClass::letter, U"AzÉéßǅʰª你א안\x1D49C\x20000");        // Lu Ll Lt Lm Lo
  expect_class(CharClass::number, U"09٣\x0966\x2167〇\xBD\xB2\x1D7D8");   // Nd Nl No
  expect_class(CharClass::other, U"\x300\x903\x20DD");                    // Mn Mc Me
  expect_class(CharClass::other, U"_-([)]«»!+$^©\x24B6😀");                // P and S
  expect_class(CharClass::other, U"\x1C\x1F\x7F\x200B\xFEFF\x2060\xAD");  // Cc Cf
  expect_class(CharClass::other, U"\xE000\x378\xFFFF\x10FFFF");           // Co Cn
}

TEST(Pretokenizer, bytes_that_are_not_utf8_are_symbols) {
  EXPECT_THAT(pieces("a\xFF\xFE!b"), ElementsAre("a", "\xFF\xFE!", "b"));
  EXPECT_THAT(pieces(" \x80"), ElementsAre(" \x80"));
  EXPECT_THAT(pieces("a\xC3"), ElementsAre("a", "\xC3"));
  EXPECT_THAT(pieces("\xED\xA0\x80x"), ElementsAre("\xED\xA0\x80", "x"));  // a surrogate
  EXPECT_THAT(pieces("\xC1\x81x"), ElementsAre("\xC1\x81", "x"));          // 'A', overlong
  EXPECT_THAT(pieces("  \xC2"), ElementsAre(" ", " \xC2"));                // begins U+0085, U+00A0
}

}  // namespace
}  // namespace shardlm
