// Tokenizer files that are odd, broken, or ask for what is not implemented.
#include "io/tokenizer_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "io/json.h"
#include "io/tokenizer.h"
#include "tests/unit/io/file_fixtures.h"

namespace shardlm {
namespace {

using nlohmann::json;
using test::error_of;
using test::read_file;
using test::TempFolder;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

using Ids = std::vector<std::int32_t>;

const std::string kVocab = R"({"a": 0, "b": 1, "ab": 2, "#": 3, "##": 4, "<eot>": 5})";
const std::string kMerges = "#version: 0.2\na b\n# #\n";

Ids encode(const TempFolder& folder, std::string_view text) {
  return Tokenizer::load(folder.path())->encode(text, SpecialText::recognise);
}

// The message about a folder of these files.
std::string refusal(const std::vector<std::pair<std::string, std::string>>& files) {
  const TempFolder folder;
  for (const auto& [name, text] : files) folder.write(name, text);
  return error_of([&] { Tokenizer::load(folder.path()); });
}
std::string vocab_refusal(const std::string& vocab) {
  return refusal({{"vocab.json", vocab}, {"merges.txt", ""}});
}
std::string merges_refusal(const std::string& merges) {
  return refusal({{"vocab.json", kVocab}, {"merges.txt", merges}});
}
std::string beside_refusal(const std::string& name, const std::string& text) {
  return refusal({{"vocab.json", kVocab}, {"merges.txt", kMerges}, {name, text}});
}

TEST(TokenizerFiles, a_folder_without_them_has_no_tokenizer) {
  const TempFolder folder;
  EXPECT_EQ(Tokenizer::load(folder.path()), nullptr);
  folder.write("tokenizer_config.json", "{}");
  EXPECT_EQ(Tokenizer::load(folder.path()), nullptr);
}

TEST(TokenizerFiles, a_link_to_nothing_is_an_unreadable_file) {
  const TempFolder folder;
  folder.write("merges.txt", kMerges);
  std::filesystem::create_symlink("nowhere", folder.path() / "vocab.json");
  EXPECT_THAT(error_of([&] { Tokenizer::load(folder.path()); }), HasSubstr("vocab.json"));
}

TEST(TokenizerFiles, the_missing_one_is_named) {
  EXPECT_THAT(refusal({{"vocab.json", kVocab}}), HasSubstr("merges.txt is missing"));
  EXPECT_THAT(refusal({{"merges.txt", kMerges}}), HasSubstr("vocab.json is missing"));
}

TEST(TokenizerFiles, only_the_first_line_of_merges_is_a_comment) {
  for (const std::string merges : {"#version: 0.2\na b\n# #\n", "#version: 0.2\r\na b\r\n# #\r\n",
                                   "#version: 0.2\na b\n# #", "a b\n# #\n\n\r\n", "# #\na b"}) {
    const TempFolder folder;
    folder.write("vocab.json", kVocab);
    folder.write("merges.txt", merges);
    EXPECT_THAT(encode(folder, "ab"), ElementsAre(2)) << merges;
    EXPECT_THAT(encode(folder, "##"), ElementsAre(4)) << merges;
  }
}

TEST(TokenizerFiles, merges_may_be_empty) {
  for (const std::string merges : {"", "\n", "#version: 0.2", "#version: 0.2\n"}) {
    const TempFolder folder;
    folder.write("vocab.json", R"({"a": 0, "b": 1})");
    folder.write("merges.txt", merges);
    EXPECT_THAT(encode(folder, "ab"), ElementsAre(0, 1));
  }
}

TEST(TokenizerFiles, bad_merges_are_named_by_line) {
  EXPECT_THAT(merges_refusal("#version: 0.2\na b\nab\n"), HasSubstr("merges.txt: line 3"));
  EXPECT_THAT(merges_refusal("a b a\n"), HasSubstr("line 1: expected two parts"));
  EXPECT_THAT(merges_refusal("a  b\n"), HasSubstr("line 1: expected two parts"));
  EXPECT_THAT(merges_refusal(" ab\n"), HasSubstr("line 1: expected two parts"));
  EXPECT_THAT(merges_refusal("ab \n"), HasSubstr("line 1: expected two parts"));
  EXPECT_THAT(merges_refusal("a b\n\n# #\n"), HasSubstr("line 2"));
  EXPECT_THAT(merges_refusal("a b\n#version: 0.2\n"),
              AllOf(HasSubstr("line 2"), HasSubstr("#version:")));
  EXPECT_THAT(merges_refusal("a z\n"), AllOf(HasSubstr("line 1"), HasSubstr("\"z\"")));
  EXPECT_THAT(merges_refusal("b a\n"), AllOf(HasSubstr("line 1"), HasSubstr("\"ba\"")));
  EXPECT_THAT(merges_refusal("a b\n# #\na b\n"), AllOf(HasSubstr("line 3"), HasSubstr("line 1")));
}

TEST(TokenizerFiles, bad_ids_are_named) {
  EXPECT_THAT(vocab_refusal(R"({"a": 0, "b": 0})"),
              AllOf(HasSubstr("id 0"), HasSubstr("\"a\""), HasSubstr("\"b\"")));
  EXPECT_THAT(vocab_refusal(R"({"a": 0, "a": 1})"), HasSubstr("\"a\""));
  for (const std::string id : {"-1", "1.0", "1e3", "\"1\"", "null", "true", "[1]", "4194304",
                               "2147483648", "18446744073709551616"}) {
    EXPECT_THAT(vocab_refusal("{\"word\": " + id + "}"),
                AllOf(HasSubstr("\"word\""), HasSubstr("whole number")))
        << id;
  }
  EXPECT_THAT(vocab_refusal("[]"), HasSubstr("array"));
  EXPECT_THAT(vocab_refusal("{\"\xFF\": 1}"), HasSubstr("not valid JSON"));
}

TEST(TokenizerFiles, ids_may_have_gaps) {
  const TempFolder folder;
  folder.write("vocab.json", R"({"a": 7, "b": 3})");
  folder.write("merges.txt", "");
  const auto tokenizer = Tokenizer::load(folder.path());
  EXPECT_EQ(tokenizer->id_limit(), 8);
  EXPECT_TRUE(tokenizer->has(7));
  EXPECT_FALSE(tokenizer->has(0));
  EXPECT_EQ(tokenizer->end_of_text(), std::nullopt);
}

TEST(TokenizerFiles, a_byte_without_token_is_named_when_a_text_needs_it) {
  const TempFolder folder;
  folder.write("vocab.json", kVocab);
  folder.write("merges.txt", kMerges);
  EXPECT_THAT(error_of([&] { encode(folder, "abz"); }, ExitCode::usage), HasSubstr("byte 0x7A"));
  EXPECT_THAT(error_of([&] { encode(folder, "ab##\xC3\xA9"); }, ExitCode::usage),
              HasSubstr("byte 0xC3"));
  folder.write("special_tokens_map.json", R"({"unk_token": "<eot>"})");
  EXPECT_THAT(encode(folder, "abz"), ElementsAre(2, 5));
}

TEST(TokenizerFiles, an_entry_that_nothing_makes_is_special) {
  const TempFolder folder;
  folder.write("vocab.json",
               R"({"a": 0, "<": 1, "<x>": 2, "<x>y": 3, "é": 4, "Ġq": 5, "": 6, "w v": 7})");
  folder.write("merges.txt", "");
  const auto tokenizer = Tokenizer::load(folder.path());
  EXPECT_THAT(encode(folder, "a<x>a<x>y<"), ElementsAre(0, 2, 0, 3, 1));
  EXPECT_THAT(encode(folder, "w v"), ElementsAre(7));
  EXPECT_TRUE(tokenizer->is_special(2));
  EXPECT_FALSE(tokenizer->is_special(4));  // the byte 0xE9
  EXPECT_FALSE(tokenizer->is_special(5));
  EXPECT_FALSE(tokenizer->is_special(6));
  EXPECT_EQ(tokenizer->decode(Ids{4, 5, 6, 7}), "\xE9 qw v");
}

TEST(TokenizerFiles, end_of_text_is_the_configured_one) {
  const TempFolder folder;
  folder.write("vocab.json", R"({"a": 0, "<|endoftext|>": 1, "<end>": 2})");
  folder.write("merges.txt", "");
  const auto end = [&] { return Tokenizer::load(folder.path())->end_of_text(); };
  EXPECT_EQ(end(), 1);
  folder.write("special_tokens_map.json", R"({"eos_token": {"content": "<end>"}})");
  EXPECT_EQ(end(), 2);
  folder.write("tokenizer_config.json", R"({"eos_token": "<|endoftext|>", "pad_token": null})");
  EXPECT_EQ(end(), 1);
  folder.write("tokenizer_config.json", R"({"eos_token": "<nowhere>"})");
  EXPECT_EQ(end(), std::nullopt);  // and a warning names it
}

TEST(TokenizerFiles, added_tokens_come_from_every_file) {
  const TempFolder folder;
  folder.write("vocab.json", kVocab);
  folder.write("merges.txt", kMerges);
  folder.write("added_tokens.json", R"({"<one>": 10, "<two>": 11})");
  folder.write(
      "tokenizer.json",
      R"({"normalizer": {"type": "NFC"}, "added_tokens": [{"id": 12, "content": "<three>"}]})");
  folder.write("tokenizer_config.json", R"({
    "added_tokens_decoder": {"11": {"content": "<two>", "special": true, "rstrip": true}},
    "additional_special_tokens": ["<three>"], "extra_special_tokens": {"x": "<one>"}})");
  const auto tokenizer = Tokenizer::load(folder.path());
  EXPECT_THAT(encode(folder, "a<one>b<two>  a<three>"), ElementsAre(0, 10, 1, 11, 0, 12));
  for (const std::int32_t id : {10, 11, 12, 5}) EXPECT_TRUE(tokenizer->is_special(id)) << id;
  EXPECT_EQ(tokenizer->id_limit(), 13);
  EXPECT_FALSE(tokenizer->has(9));
}

TEST(TokenizerFiles, bad_added_tokens_are_refused) {
  EXPECT_THAT(beside_refusal("added_tokens.json", R"({"<eot>": 9})"),
              AllOf(HasSubstr("\"<eot>\""), HasSubstr("5 and 9")));
  EXPECT_THAT(beside_refusal("added_tokens.json", R"({"<new>": 1})"),
              AllOf(HasSubstr("id 1"), HasSubstr("\"<new>\""), HasSubstr("\"b\"")));
  EXPECT_THAT(beside_refusal("added_tokens.json", R"({"": 9})"), HasSubstr("empty"));
  EXPECT_THAT(beside_refusal("added_tokens.json", R"({"<new>": -1})"), HasSubstr("whole number"));
  EXPECT_THAT(beside_refusal("added_tokens.json", "[]"), HasSubstr("an object"));
  const auto decoder = [](const std::string& text) {
    return beside_refusal("tokenizer_config.json", "{\"added_tokens_decoder\": " + text + "}");
  };
  EXPECT_THAT(decoder(R"({"x": {"content": "<new>"}})"), HasSubstr("ids as keys"));
  EXPECT_THAT(decoder(R"({"-1": {"content": "<new>"}})"), HasSubstr("ids as keys"));
  EXPECT_THAT(decoder(R"({"99999999999": {"content": "<new>"}})"), HasSubstr("whole number"));
  EXPECT_THAT(decoder(R"({"9": {"content": ""}})"), HasSubstr("content"));
  EXPECT_THAT(decoder(R"({"9": {"content": 1}})"), HasSubstr("content"));
  EXPECT_THAT(decoder(R"({"9": {"content": "x", "lstrip": 1}})"), HasSubstr("lstrip"));
  EXPECT_THAT(decoder(R"({"9": {"content": "x", "regex": true}})"), HasSubstr("\"regex\""));
  EXPECT_THAT(decoder("[]"), HasSubstr("an object"));
  EXPECT_THAT(decoder(R"({"9": "x"})"), HasSubstr("an object"));
}

TEST(TokenizerFiles, settings_that_change_ids_are_refused_by_name) {
  for (const std::string setting : {"add_bos_token", "add_eos_token", "split_special_tokens"}) {
    EXPECT_THAT(beside_refusal("tokenizer_config.json", "{\"" + setting + "\": true}"),
                AllOf(HasSubstr(setting), HasSubstr("not implemented")));
    EXPECT_THAT(beside_refusal("tokenizer_config.json", "{\"" + setting + "\": 1}"),
                AllOf(HasSubstr(setting), HasSubstr("true or false")));
  }
  EXPECT_THAT(beside_refusal("tokenizer_config.json", R"({"tokenizer_class": "CLIPTokenizer"})"),
              AllOf(HasSubstr("tokenizer_class"), HasSubstr("CLIPTokenizer")));
  EXPECT_THAT(beside_refusal("tokenizer_config.json", R"({"eos_token": 5})"),
              HasSubstr("eos_token"));
  EXPECT_THAT(beside_refusal("tokenizer_config.json", R"({"eos_token": ""})"),
              HasSubstr("eos_token"));
  EXPECT_THAT(beside_refusal("tokenizer_config.json", R"({"additional_special_tokens": "x"})"),
              HasSubstr("additional_special_tokens"));
  EXPECT_THAT(beside_refusal("tokenizer_config.json", "[]"), HasSubstr("an object"));
  EXPECT_THAT(beside_refusal("special_tokens_map.json", "[]"), HasSubstr("an object"));
}

const std::string kTokenizerJson = SHARDLM_TEST_DATA "/tokenizers/unknown/tokenizer.json";

// The message about the small tokenizer.json after `patch` (RFC 7386) is applied.
std::string patched_refusal(const std::string& patch) {
  json root = read_json_file(kTokenizerJson);
  root.merge_patch(json::parse(patch));
  return refusal({{"tokenizer.json", root.dump()}});
}

TEST(TokenizerJson, what_is_not_implemented_is_refused_by_name) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {R"({"normalizer": {"type": "NFC"}})", "normalizer: expected none, found \"NFC\""},
      {R"({"pre_tokenizer": null})", "pre_tokenizer"},
      {R"({"pre_tokenizer": {"type": "Whitespace"}})", "\"Whitespace\""},
      {R"({"pre_tokenizer": {"more": 1}})", "pre_tokenizer.more"},
      {R"({"pre_tokenizer": {"use_regex": 1}})", "pre_tokenizer.use_regex"},
      {R"({"post_processor": {"type": "BertProcessing"}})", "\"BertProcessing\""},
      {R"({"post_processor": {"type": "TemplateProcessing", "single": [
          {"SpecialToken": {"id": "<unk>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}]}})",
       "\"TemplateProcessing\""},
      {R"({"decoder": {"type": "WordPiece"}})", "\"WordPiece\""},
      {R"({"model": {"type": "Unigram"}})", "\"Unigram\""},
      {R"({"model": {"dropout": 0.1}})", "model.dropout"},
      {R"({"model": {"continuing_subword_prefix": "##"}})", "model.continuing_subword_prefix"},
      {R"({"model": {"end_of_word_suffix": "</w>"}})", "model.end_of_word_suffix"},
      {R"({"model": {"fuse_unk": true}})", "model.fuse_unk"},
      {R"({"model": {"byte_fallback": true}})", "model.byte_fallback"},
      {R"({"model": {"ignore_merges": true}})", "model.ignore_merges"},
      {R"({"model": {"new_idea": 1}})", "model.new_idea"},
      {R"({"model": {"unk_token": "<nowhere>"}})", "model.unk_token"},
      {R"({"model": {"merges": null}})", "merges"},
      {R"({"model": {"merges": [["a"]]}})", "merge 1"},
      {R"({"model": {"merges": ["a b", 7]}})", "merge 2"},
      {R"({"model": {"merges": [["", "a"]]}})", "merge 1"},
      {R"({"model": {"merges": ["x y ab"]}})", "merge 1"},
      {R"({"model": {"vocab": null}})", "vocabulary"},
      {R"({"model": null})", "model"},
      {R"({"added_tokens": 1})", "added_tokens"},
      {R"({"added_tokens": [{"content": "x"}]})", "id of token \"x\""},
      {R"({"added_tokens": [{"content": "x", "id": 0}]})", "id 0"},
      {R"({"new_part": {}})", "new_part"},
  };
  for (const auto& [patch, named] : cases) EXPECT_THAT(patched_refusal(patch), HasSubstr(named));
}

TEST(TokenizerJson, harmless_settings_are_taken) {
  json root = read_json_file(kTokenizerJson);
  root.merge_patch(json::parse(R"({
    "truncation": {"max_length": 5}, "decoder": null,
    "post_processor": {"type": "TemplateProcessing",
                       "single": [{"Sequence": {"id": "A", "type_id": 0}}]},
    "model": {"dropout": 0, "continuing_subword_prefix": "", "end_of_word_suffix": ""}})"));
  const TempFolder folder;
  folder.write("tokenizer.json", root.dump());
  EXPECT_THAT(encode(folder, "ab ab"), ElementsAre(5, 6));
}

// Every `step`-th beginning of a file, which is a JSON object, is refused, and the whole loads.
void expect_beginnings_refused(const std::vector<std::pair<std::string, std::string>>& files,
                               std::size_t cut, std::size_t step = 1) {
  const TempFolder folder;
  for (const auto& [name, text] : files) folder.write(name, text);
  const auto& [name, text] = files[cut];
  const std::size_t end = text.find_last_of('}');
  ASSERT_NE(end, std::string::npos);
  for (std::size_t length = 0; length <= end; length += step) {
    std::filesystem::remove(folder.path() / name);  // writing over a file may wait for the disk
    folder.write(name, std::string_view(text).substr(0, length));
    EXPECT_THAT(error_of([&] { Tokenizer::load(folder.path()); }), HasSubstr(name)) << length;
  }
  folder.write(name, std::string_view(text).substr(0, end + 1));
  EXPECT_NE(Tokenizer::load(folder.path()), nullptr);
}

TEST(TokenizerFiles, files_cut_short_are_refused) {
  const std::string model = SHARDLM_TEST_DATA "/models/tiny_gpt2_hf/";
  std::vector<std::pair<std::string, std::string>> files;
  for (const std::string name :
       {"vocab.json", "tokenizer_config.json", "special_tokens_map.json", "merges.txt"}) {
    files.emplace_back(name, read_file(model + name));
  }
  expect_beginnings_refused(files, 0);
  for (const std::size_t cut : {1, 2}) expect_beginnings_refused(files, cut, 17);
  expect_beginnings_refused({{"tokenizer.json", read_file(kTokenizerJson)}}, 0);
}

// A merges.txt may end after any line; within one, what is left names no token or is no pair.
TEST(TokenizerFiles, merges_cut_short_load_or_are_refused) {
  const std::string merges = "#version: 0.2\n# #\na b\n";
  const TempFolder folder;
  folder.write("vocab.json", kVocab);
  std::vector<std::size_t> loaded;
  for (std::size_t length = 0; length <= merges.size(); ++length) {
    folder.write("merges.txt", merges.substr(0, length));
    try {
      Tokenizer::load(folder.path());
      loaded.push_back(length);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::model_files);
    }
  }
  EXPECT_THAT(loaded, ElementsAre(0, 8, 9, 10, 11, 12, 13, 14, 17, 18, 21, 22));
}

}  // namespace
}  // namespace shardlm
