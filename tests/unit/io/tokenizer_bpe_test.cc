// The merge against its definition, with rules that no training makes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>
#include <string>
#include <vector>

#include "io/bpe.h"

namespace shardlm {
namespace {

using testing::ElementsAre;

using Ids = std::vector<std::int32_t>;

// Bytes 'a', 'b', … are tokens 0, 1, …
Ids merge(const std::vector<MergeRule>& rules, std::string_view text) {
  std::array<std::int32_t, 256> bytes;
  bytes.fill(Bpe::kNoToken);
  for (std::int32_t i = 0; i < 26; ++i) bytes[static_cast<std::size_t>('a' + i)] = i;
  Bpe::Scratch scratch;
  Ids ids;
  Bpe(bytes, rules).encode(text, scratch, ids);
  return ids;
}

TEST(TokenizerBpe, merges_from_left_to_right) {
  const std::vector<MergeRule> rules = {{0, 0, 100}};
  EXPECT_THAT(merge(rules, ""), ElementsAre());
  EXPECT_THAT(merge(rules, "a"), ElementsAre(0));
  EXPECT_THAT(merge(rules, "aaa"), ElementsAre(100, 0));
  EXPECT_THAT(merge(rules, "aaaabaaa"), ElementsAre(100, 100, 1, 100, 0));
}

TEST(TokenizerBpe, lower_rank_goes_first) {
  EXPECT_THAT(merge({{1, 2, 100}, {0, 1, 101}}, "abc"), ElementsAre(0, 100));
  EXPECT_THAT(merge({{0, 1, 101}, {1, 2, 100}}, "abc"), ElementsAre(101, 2));
}

TEST(TokenizerBpe, every_occurrence_goes_before_what_the_merge_makes) {
  // "ab" + "a" has the lower rank, but the second "ab" is merged before it can take its 'a'.
  EXPECT_THAT(merge({{100, 0, 101}, {0, 1, 100}}, "abab"), ElementsAre(100, 100));
  EXPECT_THAT(merge({{100, 0, 101}, {0, 1, 100}}, "abac"), ElementsAre(101, 2));
}

TEST(TokenizerBpe, bytes_without_token_stand_between) {
  EXPECT_THAT(merge({{0, 0, 100}}, "aa?a!"), ElementsAre(100, Bpe::kNoToken, 0, Bpe::kNoToken));
}

// "Repeat: the neighbours of lowest rank, all their occurrences from left to right."
Ids merge_by_definition(const std::vector<MergeRule>& rules, std::string_view text) {
  Ids ids;
  for (const char c : text) ids.push_back(c - 'a');
  const auto pair_at = [&ids](std::size_t i, const MergeRule& rule) {
    return i + 1 < ids.size() && ids[i] == rule.left && ids[i + 1] == rule.right;
  };
  while (true) {
    const auto rule = std::find_if(rules.begin(), rules.end(), [&](const MergeRule& r) {
      for (std::size_t i = 0; i < ids.size(); ++i) {
        if (pair_at(i, r)) return true;
      }
      return false;
    });
    if (rule == rules.end()) return ids;
    Ids merged;
    for (std::size_t i = 0; i < ids.size(); ++i) {
      const bool both = pair_at(i, *rule);
      merged.push_back(both ? rule->result : ids[i]);
      i += both ? 1 : 0;
    }
    ids = merged;
  }
}

// Tokens 0 to 2 are letters; rules make longer tokens of shorter ones, in any order of rank, and
// several rules may make the same token.
std::vector<MergeRule> random_rules(std::mt19937& random) {
  std::vector<MergeRule> rules;
  std::vector<std::string> texts = {"a", "b", "c"};
  for (int i = 0; i < 12; ++i) {
    const auto left = static_cast<std::int32_t>(random() % texts.size());
    const auto right = static_cast<std::int32_t>(random() % texts.size());
    const bool known = std::any_of(rules.begin(), rules.end(), [&](const MergeRule& r) {
      return r.left == left && r.right == right;
    });
    if (known) continue;
    const std::string text =
        texts[static_cast<std::size_t>(left)] + texts[static_cast<std::size_t>(right)];
    auto place = std::find(texts.begin(), texts.end(), text);
    if (place == texts.end()) place = texts.insert(place, text);
    rules.push_back({left, right, static_cast<std::int32_t>(place - texts.begin())});
  }
  std::shuffle(rules.begin(), rules.end(), random);
  return rules;
}

TEST(TokenizerBpe, agrees_with_the_definition_for_any_rules) {
  std::mt19937 random(11);
  for (int i = 0; i < 3000; ++i) {
    const auto rules = random_rules(random);
    std::string text;
    for (std::size_t n = random() % 40; n > 0; --n) text += static_cast<char>('a' + random() % 3);
    ASSERT_EQ(merge(rules, text), merge_by_definition(rules, text)) << text;
  }
}

}  // namespace
}  // namespace shardlm
