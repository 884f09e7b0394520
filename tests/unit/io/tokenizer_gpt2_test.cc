// GPT-2's own vocabulary against ids published elsewhere.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "base/error.h"
#include "io/json.h"
#include "io/tokenizer.h"
#include "io/utf8.h"
#include "tests/unit/io/file_fixtures.h"

namespace shardlm {
namespace {

using test::error_of;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

using Ids = std::vector<std::int32_t>;

const Tokenizer& gpt2() {
  static const auto tokenizer = Tokenizer::load(SHARDLM_TEST_DATA "/gpt2_bpe");
  return *tokenizer;
}

Ids encode(std::string_view text, SpecialText special = SpecialText::plain) {
  return gpt2().encode(text, special);
}

// For lists too long to be printed when they differ.
std::size_t count_of(const Ids& ids, std::int32_t id) {
  return static_cast<std::size_t>(std::count(ids.begin(), ids.end(), id));
}

TEST(TokenizerGpt2, all_published_vectors) {
  const auto vectors = read_json_file(SHARDLM_TEST_DATA "/gpt2_tokenizer_vectors.json");
  std::size_t cases = 0;
  for (const auto& c : vectors.at("cases")) {
    const auto text = c.at("text").get<std::string>();
    const auto ids = c.at("ids").get<Ids>();
    const bool special = c.at("allow_special").get<bool>();
    SCOPED_TRACE(c.at("source").get<std::string>() + ": " + c.at("name").get<std::string>());
    EXPECT_EQ(encode(text, special ? SpecialText::recognise : SpecialText::plain), ids);
    EXPECT_EQ(gpt2().decode(ids), text);
    ++cases;
  }
  EXPECT_EQ(cases, 537U);
}

// The traps and the table of spot checks of the project's list of faults in similar systems.
TEST(TokenizerGpt2, spot_checks) {
  const std::vector<std::pair<std::string, Ids>> checks = {
      {"This is good.\n\n", {1212, 318, 922, 13, 628}},
      {"This is good.\n\nBut in a way.", {1212, 318, 922, 13, 198, 198, 1537, 287, 257, 835, 13}},
      {" München", {40790, 77, 6607}},
      {"naïve café", {2616, 38776, 40304}},
      {" café", {40304}},
      {"a  b", {64, 220, 275}},
      {"def f():\n    return x", {4299, 277, 33529, 198, 220, 220, 220, 1441, 2124}},
      {"hello ", {31373, 220}},
      {"a \n\n b", {64, 220, 628, 275}},
      {"a<|endoftext|>b", {64, 27, 91, 437, 1659, 5239, 91, 29, 65}},
      {"😀", {47249, 222}},
      {"hi 😀", {5303, 30325, 222}},
      {"👋🏽", {41840, 233, 8582, 237, 121}},
      {"Hello, world!", {15496, 11, 995, 0}},
      {"don't", {9099, 470}},
      {"we'd", {732, 1549}},
      {" 'tis", {705, 48010}},
      {"it's", {270, 338}},
      {"DON'T", {41173, 6, 51}},
      {"3.14", {18, 13, 1415}},
      {"a1b2", {64, 16, 65, 17}},
      {"foo_bar1", {21943, 62, 5657, 16}},
      {"!!!!", {13896}},
      {"\n", {198}},
      {"a\n\n\nb", {64, 628, 198, 65}},
      {"a\r\nb", {64, 201, 198, 65}},
      {"a\tb", {64, 197, 65}},
      {" \t a", {220, 197, 257}},
      {"  hello", {220, 23748}},
      {"a     ", {64, 220, 220, 220, 220, 220}},
      {"a \n b", {64, 220, 198, 275}},
      {"\u00a0", {1849}},
      {"a\u3000b", {64, 5099, 222, 65}},
      {"a\u2028b", {64, 447, 101, 65}},
      {"e\u0301", {68, 136, 223}},
      {"²", {31185}},
      {"1½", {16, 23141}},
      {"٣٤", {149, 96, 149, 97}},
      {"你好，世界", {19526, 254, 25001, 121, 171, 120, 234, 10310, 244, 45911, 234}},
      {"안녕", {168, 243, 230, 167, 227, 243}},
      {" Привет мир", {12466, 253, 21169, 18849, 38857, 16843, 20375, 12466, 120, 18849, 21169}},
      {"العربية", {23525, 44690, 26897, 39848, 22654, 45632}},
      {"𝒜", {47728, 240, 250}},
      {"\ufeffhi", {171, 119, 123, 5303}},
      {"#include", {2, 17256}},
      {" ##", {22492}},
      {"    return x", {220, 220, 220, 1441, 2124}},
      {"a\fb", {64, 200, 65}},
      {"😀😀", {47249, 222, 47249, 222}},
      {"👋", {41840, 233}},
  };
  for (const auto& [text, ids] : checks) {
    EXPECT_EQ(encode(text), ids) << text;
    EXPECT_EQ(gpt2().decode(ids), text);
  }
}

TEST(TokenizerGpt2, end_of_text_is_an_id_or_plain_text) {
  EXPECT_EQ(encode("a<|endoftext|>b", SpecialText::recognise), (Ids{64, 50256, 65}));
  EXPECT_EQ(encode("<|endoftext|><|endoftext|>", SpecialText::recognise), (Ids{50256, 50256}));
  EXPECT_EQ(gpt2().decode(Ids{64, 50256, 65}), "a<|endoftext|>b");
  EXPECT_EQ(gpt2().end_of_text(), 50256);
  EXPECT_TRUE(gpt2().is_special(50256));
  EXPECT_FALSE(gpt2().is_special(50255));
  EXPECT_FALSE(gpt2().is_special(-1));
}

TEST(TokenizerGpt2, nothing_encodes_to_nothing) {
  EXPECT_THAT(encode(""), IsEmpty());
  EXPECT_THAT(encode("", SpecialText::recognise), IsEmpty());
  EXPECT_EQ(gpt2().decode({}), "");
}

TEST(TokenizerGpt2, a_character_split_over_tokens_streams_whole) {
  for (const auto& [ids, deltas] : std::vector<std::pair<Ids, std::vector<std::string>>>{
           {{47249, 222}, {"", "😀"}}, {{30325, 222}, {" ", "😀"}}}) {
    Utf8Stream stream;
    for (std::size_t i = 0; i < ids.size(); ++i) {
      EXPECT_EQ(stream.push(gpt2().token_bytes(ids[i])), deltas[i]);
    }
    EXPECT_EQ(stream.finish(), "");
  }
}

TEST(TokenizerGpt2, ids_have_bounds) {
  EXPECT_EQ(gpt2().id_limit(), 50257);
  EXPECT_TRUE(gpt2().has(0));
  EXPECT_TRUE(gpt2().has(50256));
  EXPECT_FALSE(gpt2().has(50257));
  EXPECT_FALSE(gpt2().has(-1));
  EXPECT_FALSE(gpt2().has(std::numeric_limits<std::int32_t>::min()));
  EXPECT_EQ(gpt2().token_bytes(220), " ");
  for (const std::int32_t id : {50257, -1}) {
    EXPECT_THAT(error_of(
                    [id] {
                      gpt2().decode(Ids{64, id});
                    },
                    ExitCode::usage),
                HasSubstr("token id " + std::to_string(id)));
  }
}

// Ids of the single bytes from the vocabulary: "Ā" (byte 0) is 188, "ÿ" 187, "Ģ" (0x80) 222.
TEST(TokenizerGpt2, bytes_that_are_not_utf8_are_encoded_as_they_are) {
  EXPECT_EQ(encode(std::string("\0\xFF\x80", 3)), (Ids{188, 187, 222}));
  EXPECT_EQ(encode("a\xC3"), (Ids{64, 127}));
  EXPECT_EQ(encode("\xF0\x9F\x98"), (Ids{47249}));
}

TEST(TokenizerGpt2, random_bytes_come_back) {
  std::mt19937 random(5);
  const std::string odd = " \n\t'sta<|endoftext|>1\x80\xBF\xC2\x85\xA0\xE2\x80\xA8\xED\xF0\x9F\x98";
  for (int i = 0; i < 10000; ++i) {
    std::string bytes;
    for (std::size_t n = random() % 40; n > 0; --n) {
      bytes += i % 2 == 0 ? static_cast<char>(random()) : odd[random() % odd.size()];
    }
    ASSERT_EQ(gpt2().decode(encode(bytes)), bytes);
    ASSERT_EQ(gpt2().decode(encode(bytes, SpecialText::recognise)), bytes);
  }
}

// A merge that scans the piece again for each token would take minutes here (a megabyte of 'a'
// takes 0.2 s in a release build). Expected: the slow Python reference of GPT-2's rule.
TEST(TokenizerGpt2, long_runs_take_no_quadratic_time) {
  const Ids a = encode(std::string(1 << 18, 'a'));
  EXPECT_EQ(a.size(), std::size_t{1 << 16});
  EXPECT_EQ(count_of(a, 24794), a.size());
  const Ids spaces = encode(std::string(1 << 18, ' ') + "x");
  EXPECT_EQ(spaces.size(), std::size_t{1 << 18});
  EXPECT_EQ(count_of(spaces, 220), spaces.size() - 1);
  EXPECT_EQ(spaces.back(), 2124);
  const Ids newlines = encode(std::string(1 << 16, '\n'));
  EXPECT_EQ(newlines.size(), std::size_t{1 << 15});
  EXPECT_EQ(count_of(newlines, 628), newlines.size());
  EXPECT_EQ(encode(std::string(100000, 'a')).size(), 25000U);
}

// Expected count and hash: Hugging Face tokenizers 0.23 on the same letters.
TEST(TokenizerGpt2, a_hundred_thousand_random_letters) {
  std::string letters;
  for (std::uint32_t i = 0, x = 1; i < 100000; ++i) {
    x = x * 1664525U + 1013904223U;
    letters += static_cast<char>('a' + (x >> 24) % 26);
  }
  ASSERT_EQ(letters.substr(0, 20), "iqzymqqmehmevgirmfsg");
  const Ids ids = encode(letters);
  std::uint64_t hash = 0;
  for (const std::int32_t id : ids) hash = hash * 31 + static_cast<std::uint64_t>(id) + 1;
  EXPECT_EQ(ids.size(), 59472U);
  EXPECT_EQ(hash, 0x8f55e0c4d95b6c27U);
}

}  // namespace
}  // namespace shardlm
