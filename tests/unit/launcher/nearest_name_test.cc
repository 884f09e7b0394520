#include "launcher/nearest_name.h"

#include <gtest/gtest.h>

#include <vector>

namespace shardlm {
namespace {

// Distances known from the literature and by hand.
TEST(EditDistance, CountsEditsAndSwaps) {
  EXPECT_EQ(edit_distance("", ""), 0U);
  EXPECT_EQ(edit_distance("", "abc"), 3U);
  EXPECT_EQ(edit_distance("abc", ""), 3U);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3U);
  EXPECT_EQ(edit_distance("saturday", "sunday"), 3U);
  EXPECT_EQ(edit_distance("ab", "ba"), 1U);   // one swap, not two replacements
  EXPECT_EQ(edit_distance("ca", "abc"), 3U);  // the restricted form: 2 in the unrestricted one
}

const std::vector<std::string> kKnown = {"model",       "max-tokens", "max-batch",
                                         "temperature", "top-k",      "top-p"};

TEST(NearestName, FindsSlips) {
  EXPECT_EQ(nearest_name("temprature", kKnown).name, "temperature");
  EXPECT_EQ(nearest_name("max_tokens", kKnown).name, "max-tokens");
  EXPECT_EQ(nearest_name("modle", kKnown).name, "model");
  EXPECT_TRUE(nearest_name("modle", kKnown).close);
}

TEST(NearestName, TakesAnAbbreviationForItsName) {
  EXPECT_EQ(nearest_name("temp", kKnown).name, "temperature");
  EXPECT_TRUE(nearest_name("temp", kKnown).close);
}

TEST(NearestName, SaysWhenNothingIsClose) {
  EXPECT_FALSE(nearest_name("xyzzy", kKnown).close);
  EXPECT_EQ(suggestion("tpo-k", kKnown, "--"), "did you mean --top-k?");
  EXPECT_EQ(suggestion("qq", std::vector<std::string>{"model"}, ""),
            "the nearest known name is model");
  EXPECT_EQ(suggestion("qq", std::vector<std::string>{}, ""), "");
}

}  // namespace
}  // namespace shardlm
