// Small tokenizers in every spelling, against ids of the Hugging Face tokenizers library
// (tools/make_tokenizer_fixtures.py).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "io/json.h"
#include "io/tokenizer.h"

namespace shardlm {
namespace {

using testing::ElementsAre;

using Ids = std::vector<std::int32_t>;

const std::string kFolder = SHARDLM_TEST_DATA "/tokenizers/";

TEST(TokenizerFixtures, ids_are_those_of_hugging_face) {
  std::map<std::string, std::unique_ptr<Tokenizer>> tokenizers;
  std::map<std::string, int> cases;
  for (const auto& c : read_json_file(kFolder + "expected.json")) {
    const auto text = c.at("text").get<std::string>();
    for (const std::string folder : c.at("folders")) {
      auto& tokenizer = tokenizers[folder];
      if (!tokenizer) tokenizer = Tokenizer::load(kFolder + folder);
      SCOPED_TRACE(folder + ": " + c.at("text").dump());
      EXPECT_EQ(tokenizer->encode(text, SpecialText::recognise), c.at("ids").get<Ids>());
      EXPECT_EQ(tokenizer->encode(text, SpecialText::plain), c.at("plain_ids").get<Ids>());
      ++cases[folder];
    }
  }
  using testing::Pair;
  EXPECT_THAT(cases,
              ElementsAre(Pair("folder", 249), Pair("json_pairs", 249), Pair("json_strings", 249),
                          Pair("one_piece", 120), Pair("prefix_space", 120), Pair("unknown", 6)));
}

TEST(TokenizerFixtures, special_is_what_the_files_call_special) {
  for (const std::string folder : {"folder", "json_pairs", "json_strings"}) {
    const auto tokenizer = Tokenizer::load(kFolder + folder);
    const std::int32_t first = *tokenizer->end_of_text();
    EXPECT_EQ(tokenizer->token_bytes(first), "<|endoftext|>");
    EXPECT_EQ(tokenizer->token_bytes(first + 5), "rabbit");
    EXPECT_EQ(tokenizer->id_limit(), first + 9);
    EXPECT_TRUE(tokenizer->is_special(first));
    EXPECT_TRUE(tokenizer->is_special(first + 4));
    EXPECT_FALSE(tokenizer->is_special(first + 5));
    EXPECT_EQ(tokenizer->decode(Ids{first, first + 7}), "<|endoftext|>你好");
  }
}

// The same words with Transformers' tokenizer of this folder (whose version 5 drops "zz", where
// version 4 and we put its <unk>).
TEST(TokenizerFixtures, a_vocabulary_of_few_bytes_has_its_unknown_token) {
  const auto tokenizer = Tokenizer::load(SHARDLM_TEST_DATA "/models/tiny_gpt2_hf");
  const auto encode = [&](std::string_view text) {
    return tokenizer->encode(text, SpecialText::recognise);
  };
  EXPECT_THAT(encode("low lowest newer wider"),
              ElementsAre(0, 1, 2, 14, 3, 5, 6, 10, 9, 3, 2, 15, 10, 2, 7, 8, 15));
  EXPECT_THAT(encode(" lower zz"), ElementsAre(14, 15, 10, 19, 19));
  EXPECT_THAT(encode("<unk> low<|endoftext|>"), ElementsAre(19, 14, 20));
  EXPECT_THAT(encode(" lowé"), ElementsAre(14, 19, 19));
  EXPECT_EQ(tokenizer->decode(Ids{16, 20}), " lowest<|endoftext|>");
  EXPECT_FALSE(tokenizer->is_special(16));  // in no merge, but not written as it reads
  EXPECT_TRUE(tokenizer->is_special(19));
  EXPECT_EQ(tokenizer->end_of_text(), 20);
  EXPECT_EQ(tokenizer->id_limit(), 21);
}

}  // namespace
}  // namespace shardlm
