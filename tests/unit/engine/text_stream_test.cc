#include "engine/text_stream.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <random>

#include "base/error.h"

namespace shardlm {
namespace {

using Pieces = std::vector<std::string>;

/// What each push and the final finish() return.
struct Shown {
  Pieces deltas;
  std::string text;
  bool stopped = false;
};

Shown stream(const Pieces& stops, const Pieces& tokens) {
  TextStream out(stops);
  Shown shown;
  for (const std::string& token : tokens) shown.deltas.push_back(out.push(token));
  shown.deltas.push_back(out.finish());
  for (const std::string& delta : shown.deltas) shown.text += delta;
  EXPECT_EQ(out.text(), shown.text);
  shown.stopped = out.stopped();
  return shown;
}

// Trap 26: ids 47249 and 222 are the bytes F0 9F 98 and 80; 30325 is " " and F0 9F 98.
TEST(TextStream, ACharacterThatSpansTokensComesWhole) {
  const Shown smile = stream({}, {"\xF0\x9F\x98", "\x80"});
  EXPECT_EQ(smile.deltas, (Pieces{"", "\xF0\x9F\x98\x80", ""}));
  const Shown after_space = stream({}, {" \xF0\x9F\x98", "\x80"});
  EXPECT_EQ(after_space.deltas, (Pieces{" ", "\xF0\x9F\x98\x80", ""}));
}

TEST(TextStream, HalfACharacterAtTheEndBecomesAReplacement) {
  EXPECT_EQ(stream({}, {"a\xF0\x9F\x98"}).deltas, (Pieces{"a", "\xEF\xBF\xBD"}));
  EXPECT_EQ(stream({}, {"a\x80"}).text, "a\xEF\xBF\xBD");
}

// Trap 30.
TEST(TextStream, AStopStringMaySpanTokensAndNeverLeaks) {
  const Pieces quick{"The", " quick", " brown", " fox"};
  const Shown shown = stream({"own fox"}, quick);
  EXPECT_EQ(shown.deltas, (Pieces{"The", " quick", " br", "", ""}));
  EXPECT_EQ(shown.text, "The quick br");
  EXPECT_TRUE(shown.stopped);
}

TEST(TextStream, AStopStringInsideATokenCutsTheToken) {
  EXPECT_EQ(stream({"Pari"}, {"in ", "Paris"}).text, "in ");
  EXPECT_EQ(stream({"Pari"}, {"in Paris", "!"}).deltas, (Pieces{"in ", "", ""}));
  EXPECT_EQ(stream({"x"}, {"axb", "c"}).text, "a");
}

TEST(TextStream, WhatOnlyLookedLikeAStopStringIsShown) {
  const Shown shown = stream({"own fox"}, {"br", "own", " f", "rog", " own"});
  EXPECT_EQ(shown.deltas, (Pieces{"br", "", "", "own frog", " ", "own"}));
  EXPECT_FALSE(shown.stopped);
  EXPECT_EQ(stream({"aab"}, {"a", "a", "a", "b"}).deltas, (Pieces{"", "", "a", "", ""}));
}

TEST(TextStream, OfOverlappingStopsTheFirstToCompleteWins) {
  EXPECT_EQ(stream({"abcd", "bc"}, {"xabcd"}).text, "xa");
  EXPECT_EQ(stream({"bc", "abcd"}, {"x", "a", "b", "c"}).text, "xa");
  EXPECT_EQ(stream({"abcd", "bx"}, {"abcd"}).text, "");
}

TEST(TextStream, OfStopsThatCompleteTogetherTheLongestWins) {
  EXPECT_EQ(stream({"c", "abc", "bc"}, {"xabc"}).text, "x");
  EXPECT_EQ(stream({"c", "abc", "bc"}, {"xa", "b", "c"}).text, "x");
}

TEST(TextStream, AStopInsideACharacterLeavesValidText) {
  const Shown shown = stream({"\x98\x80"}, {"a\xF0\x9F\x98\x80"});
  EXPECT_EQ(shown.text, "a\xEF\xBF\xBD");
  EXPECT_TRUE(shown.stopped);
}

TEST(TextStream, NothingComesAfterAStop) {
  TextStream out({"."});
  EXPECT_EQ(out.push("One. Two"), "One");
  EXPECT_EQ(out.push(" Three."), "");
  EXPECT_EQ(out.finish(), "");
  EXPECT_EQ(out.text(), "One");
}

TEST(TextStream, AnEmptyStopStringIsRefused) {
  try {
    TextStream({"a", ""});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::usage);
    EXPECT_NE(std::string(error.what()).find("--stop"), std::string::npos);
  }
}

/// Where the text ends by the definition, straight from it.
std::string cut_by_definition(const std::string& bytes, const Pieces& stops) {
  for (std::size_t end = 1; end <= bytes.size(); ++end) {
    std::optional<std::size_t> begin;
    for (const std::string& stop : stops) {
      if (!std::string_view(bytes).substr(0, end).ends_with(stop)) continue;
      begin = std::min(begin.value_or(end), end - stop.size());
    }
    if (begin) return sanitize_utf8(std::string_view(bytes).substr(0, *begin));
  }
  return sanitize_utf8(bytes);
}

TEST(TextStream, AnySplitGivesTheSameText) {
  const std::string alphabet[] = {"a", "b", "c", "\xC3\xA9", "\xF0\x9F\x98\x80", "\x80", "\xF0"};
  std::mt19937 random(1);
  const auto below = [&random](std::size_t n) { return random() % n; };
  const auto random_text = [&](std::size_t letters) {
    std::string text;
    for (std::size_t i = 0; i < letters; ++i) text += alphabet[below(std::size(alphabet))];
    return text;
  };
  int stopped = 0;
  for (int trial = 0; trial < 10000; ++trial) {
    const std::string bytes = random_text(1 + below(20));
    Pieces stops;
    for (std::size_t n = below(4); n > 0; --n) stops.push_back(random_text(1 + below(4)));
    Pieces tokens;
    for (std::size_t i = 0; i < bytes.size();) {
      const std::size_t n = below(5);  // a token may be empty
      tokens.push_back(bytes.substr(i, n));
      i += n;
    }
    const Shown shown = stream(stops, tokens);
    ASSERT_EQ(shown.text, cut_by_definition(bytes, stops));
    for (const std::string& delta : shown.deltas) ASSERT_TRUE(is_valid_utf8(delta));
    stopped += shown.stopped ? 1 : 0;
  }
  EXPECT_GT(stopped, 1000);  // both ends were met
  EXPECT_LT(stopped, 9000);
}

}  // namespace
}  // namespace shardlm
