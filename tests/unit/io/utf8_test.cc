#include "io/utf8.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <utility>
#include <vector>

namespace shardlm {
namespace {

std::string repeat(int times, const std::string& text) {
  std::string all;
  for (int i = 0; i < times; ++i) all += text;
  return all;
}

const std::string kBad = "\uFFFD";

// Tables 3-8 to 3-11 of the Unicode Standard 15, and further ones checked with Python's
// bytes.decode("utf-8", "replace").
std::vector<std::pair<std::string, std::string>> replacements() {
  return {
      {"\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41", repeat(8, kBad) + "A"},
      {"\xED\xA0\x80\xED\xBF\xBF\xED\xAF\x41", repeat(8, kBad) + "A"},
      {"\xF4\x91\x92\x93\xFF\x41\x80\xBF\x42", repeat(5, kBad) + "A" + repeat(2, kBad) + "B"},
      {"\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41", repeat(4, kBad) + "A"},
      {"", ""},
      {std::string("a\0b", 3), std::string("a\0b", 3)},
      {"\xF0\x9F\x98", kBad},
      {"\xF0\x9F\x98\x80", "😀"},
      {"\xF0\x9F\x98 x", kBad + " x"},
      {"\xC3", kBad},
      {"\x80", kBad},
      {"\xF5\x80\x80\x80", repeat(4, kBad)},
      {"\xED\x9F\xBF\xEE\x80\x80\xF4\x8F\xBF\xBF\xEF\xBF\xBF",
       "\uD7FF\uE000\U0010FFFF\xEF\xBF\xBF"},
      {"\xC2\x80\xE0\xA0\x80\xF0\x90\x80\x80", "\xC2\x80\u0800\U00010000"},
  };
}

TEST(Utf8, replaces_each_maximal_invalid_part_once) {
  for (const auto& [bytes, text] : replacements()) {
    EXPECT_EQ(sanitize_utf8(bytes), text) << testing::PrintToString(bytes);
    EXPECT_EQ(is_valid_utf8(bytes), bytes == text) << testing::PrintToString(bytes);
  }
}

TEST(Utf8, tells_unfinished_from_invalid) {
  using Kind = Utf8Char::Kind;
  const auto look = [](std::string_view bytes) {
    const Utf8Char c = first_utf8_char(bytes);
    return std::pair(c.kind, c.length);
  };
  EXPECT_EQ(look("\xE2\x82"), std::pair(Kind::unfinished, std::size_t{2}));
  EXPECT_EQ(look("\xE2\x82x"), std::pair(Kind::invalid, std::size_t{2}));
  EXPECT_EQ(look("\xE0\x80"), std::pair(Kind::invalid, std::size_t{1}));
  EXPECT_EQ(look("\xC1"), std::pair(Kind::invalid, std::size_t{1}));
  EXPECT_EQ(first_utf8_char("€x").code_point, U'€');
  EXPECT_EQ(first_utf8_char("\U0010FFFF").code_point, char32_t{0x10FFFF});
}

TEST(Utf8Stream, holds_back_half_a_character) {
  Utf8Stream stream;
  EXPECT_EQ(stream.push("a\xF0\x9F\x98"), "a");
  EXPECT_EQ(stream.push(""), "");
  EXPECT_EQ(stream.push("\x80"), "😀");
  EXPECT_EQ(stream.finish(), "");
  EXPECT_EQ(stream.push("\xE2"), "");
  EXPECT_EQ(stream.push("\x82"), "");
  EXPECT_EQ(stream.finish(), kBad);
  EXPECT_EQ(stream.finish(), "");
}

TEST(Utf8Stream, does_not_hold_back_what_is_invalid_already) {
  Utf8Stream stream;
  EXPECT_EQ(stream.push("\xED\xA0"), kBad + kBad);  // would be a surrogate
  EXPECT_EQ(stream.push("\xE2x"), kBad + "x");
}

// The bytes in pieces of `size` give the text of the whole, and valid UTF-8 at each step.
void expect_same_in_pieces(const std::string& bytes, std::size_t size) {
  Utf8Stream stream;
  std::string text;
  for (std::size_t at = 0; at < bytes.size(); at += size) {
    const std::string piece = stream.push(std::string_view(bytes).substr(at, size));
    EXPECT_TRUE(is_valid_utf8(piece));
    text += piece;
  }
  text += stream.finish();
  EXPECT_EQ(text, sanitize_utf8(bytes)) << testing::PrintToString(bytes);
}

TEST(Utf8Stream, gives_the_text_of_the_whole_however_it_is_cut) {
  for (const auto& [bytes, text] : replacements()) {
    for (std::size_t size = 1; size <= 4; ++size) expect_same_in_pieces(bytes, size);
  }
  std::mt19937 random(1);
  const std::string odd = "\x41\x80\xBF\xC2\xE0\xED\xEF\xF0\xF4\xF5\x9F\x90\xA0";
  for (int i = 0; i < 2000; ++i) {
    std::string bytes;
    for (int n = 0; n < 12; ++n) bytes += odd[random() % odd.size()];
    expect_same_in_pieces(bytes, 1 + random() % 4);
  }
}

}  // namespace
}  // namespace shardlm
