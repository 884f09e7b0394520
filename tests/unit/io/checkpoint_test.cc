#include "io/checkpoint.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "tests/unit/io/file_fixtures.h"

namespace shardlm {
namespace {

namespace fs = std::filesystem;
using test::error_of;
using test::TempFolder;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

constexpr const char* kFirst = "model-00001-of-00002.safetensors";
constexpr const char* kSecond = "model-00002-of-00002.safetensors";

// A file of F32 scalars: {name, value}, …
std::string scalars(const std::vector<std::pair<std::string, float>>& list) {
  std::string header = "{", data;
  for (const auto& [name, value] : list) {
    header += fmt::format(R"({}"{}":{{"dtype":"F32","shape":[],"data_offsets":[{},{}]}})",
                          data.empty() ? "" : ",", name, data.size(), data.size() + 4);
    data.append(reinterpret_cast<const char*>(&value), 4);
  }
  return test::safetensors(header + "}", data);
}

void write_index(const TempFolder& folder, const std::string& weight_map,
                 const std::string& metadata = R"({"total_size":12})") {
  folder.write("model.safetensors.index.json",
               fmt::format(R"({{"metadata":{},"weight_map":{}}})", metadata, weight_map));
}

// Two shards: a, c in the first, b in the second.
void write_sharded(const TempFolder& folder) {
  folder.write(kFirst, scalars({{"c", 3}, {"a", 1}}));
  folder.write(kSecond, scalars({{"b", 2}}));
  write_index(folder, fmt::format(R"({{"a":"{0}","b":"{1}","c":"{0}"}})", kFirst, kSecond));
}

std::string refusal(const TempFolder& folder) {
  return error_of([&] { Checkpoint::open(folder.path()); });
}

float value(const Checkpoint& checkpoint, const char* name) {
  float out = 0;
  const HostTensor* tensor = checkpoint.find(name);
  if (tensor == nullptr) return -1;
  tensor->read(0, std::span(&out, 1));
  return out;
}

std::vector<std::string> names(const Checkpoint& checkpoint) {
  std::vector<std::string> out;
  for (const HostTensor* tensor : checkpoint.tensors()) out.push_back(tensor->name);
  return out;
}

TEST(Checkpoint, reads_a_single_file) {
  const TempFolder folder;
  const auto path = folder.write("model.safetensors", scalars({{"b", 2}, {"a", 1}}));
  const Checkpoint checkpoint = Checkpoint::open(folder.path());
  EXPECT_THAT(names(checkpoint), ElementsAre("a", "b"));
  EXPECT_EQ(value(checkpoint, "a"), 1);
  EXPECT_EQ(value(checkpoint, "b"), 2);
  EXPECT_EQ(checkpoint.find("c"), nullptr);
  EXPECT_EQ(checkpoint.find(""), nullptr);
  EXPECT_EQ(checkpoint.find("a")->file, path.string());
  EXPECT_EQ(checkpoint.file_bytes(), fs::file_size(path));
  EXPECT_THAT(checkpoint.warnings(), IsEmpty());
}

TEST(Checkpoint, reads_shards_as_one_table) {
  const TempFolder folder;
  write_sharded(folder);
  Checkpoint opened = Checkpoint::open(folder.path());
  const HostTensor* b = opened.find("b");
  const Checkpoint checkpoint = std::move(opened);  // pointers live on
  EXPECT_EQ(checkpoint.find("b"), b);
  EXPECT_THAT(names(checkpoint), ElementsAre("a", "b", "c"));
  EXPECT_EQ(value(checkpoint, "a"), 1);
  EXPECT_EQ(value(checkpoint, "b"), 2);
  EXPECT_EQ(value(checkpoint, "c"), 3);
  EXPECT_EQ(checkpoint.files().size(), 2U);
  EXPECT_EQ(checkpoint.file_bytes(),
            fs::file_size(folder.path() / kFirst) + fs::file_size(folder.path() / kSecond));
  EXPECT_THAT(checkpoint.warnings(), IsEmpty());
}

TEST(Checkpoint, a_single_file_wins_over_an_index_with_a_warning) {
  const TempFolder folder;
  write_sharded(folder);
  folder.write("model.safetensors", scalars({{"a", 7}}));
  const Checkpoint checkpoint = Checkpoint::open(folder.path());
  EXPECT_THAT(names(checkpoint), ElementsAre("a"));
  EXPECT_EQ(value(checkpoint, "a"), 7);
  EXPECT_THAT(checkpoint.warnings(), ElementsAre(AllOf(HasSubstr("model.safetensors is used"),
                                                       HasSubstr("model.safetensors.index.json"))));
}

TEST(Checkpoint, trap71_a_missing_shard_is_named) {
  const TempFolder folder;
  write_sharded(folder);
  fs::remove(folder.path() / kSecond);
  EXPECT_THAT(refusal(folder),
              AllOf(HasSubstr("index.json"), HasSubstr("1 of 2 weight files are missing"),
                    HasSubstr(kSecond), Not(HasSubstr(kFirst))));
}

TEST(Checkpoint, many_missing_shards_make_a_short_message) {
  const TempFolder folder;
  std::string map = "{";
  for (int i = 0; i < 20; ++i) {
    map += fmt::format(R"({}"t{}":"s{:02}.safetensors")", i == 0 ? "" : ",", i, i);
  }
  write_index(folder, map + "}");
  EXPECT_THAT(refusal(folder), AllOf(HasSubstr("20 of 20"), HasSubstr("s04.safetensors, ..."),
                                     Not(HasSubstr("s05"))));
}

TEST(Checkpoint, a_link_that_leads_nowhere_is_no_absent_file) {
  const TempFolder folder;
  write_sharded(folder);
  fs::create_symlink("gone", folder.path() / "model.safetensors");
  EXPECT_THAT(refusal(folder), AllOf(HasSubstr("model.safetensors"), HasSubstr("No such file")));
}

TEST(Checkpoint, S35_a_tensor_must_be_in_the_shard_that_the_index_names) {
  const TempFolder folder;
  write_sharded(folder);
  write_index(folder,
              fmt::format(R"({{"a":"{0}","b":"{1}","c":"{0}","d":"{1}"}})", kFirst, kSecond));
  EXPECT_THAT(refusal(folder),
              AllOf(HasSubstr("tensor \"d\""), HasSubstr(kSecond), HasSubstr("in no shard")));
  write_index(folder, fmt::format(R"({{"a":"{1}","b":"{1}","c":"{0}"}})", kFirst, kSecond));
  EXPECT_THAT(refusal(folder),
              AllOf(HasSubstr("tensor \"a\""), HasSubstr(fmt::format("expected it in {}", kSecond)),
                    HasSubstr(fmt::format("found it in {}", kFirst))));
}

TEST(Checkpoint, S35_a_tensor_in_two_shards_is_refused) {
  const TempFolder folder;
  write_sharded(folder);
  folder.write(kSecond, scalars({{"b", 2}, {"c", 4}}));
  EXPECT_THAT(refusal(folder),
              AllOf(HasSubstr("\"c\" is in two shards"), HasSubstr(kFirst), HasSubstr(kSecond)));
}

TEST(Checkpoint, S35_a_tensor_that_the_index_does_not_name_is_loaded_and_warned_of) {
  const TempFolder folder;
  write_sharded(folder);
  write_index(folder, fmt::format(R"({{"a":"{0}","b":"{1}"}})", kFirst, kSecond));
  const Checkpoint checkpoint = Checkpoint::open(folder.path());
  EXPECT_EQ(value(checkpoint, "c"), 3);
  EXPECT_THAT(
      checkpoint.warnings(),
      ElementsAre(AllOf(HasSubstr("1 tensors"), HasSubstr("weight_map"), HasSubstr("\"c\""))));
}

TEST(Checkpoint, S35_shard_names_are_plain) {
  const TempFolder folder;
  folder.write("ok.safetensors", scalars({{"a", 1}}));
  fs::create_directory(folder.path() / "sub");
  folder.write("sub/x.safetensors", scalars({{"a", 1}}));
  for (const char* name : {"sub/x.safetensors", "../x.safetensors", "/etc/passwd", "..", ".", "",
                           "a\\\\b", "./ok.safetensors", "ok.safetensors\\u0000"}) {
    write_index(folder, fmt::format(R"({{"a":"{}"}})", name));
    EXPECT_THAT(refusal(folder), HasSubstr("expected a plain file name")) << name;
  }
}

TEST(Checkpoint, S35_a_wrong_total_size_is_only_warned_of) {
  const TempFolder folder;
  write_sharded(folder);
  const std::string map = fmt::format(R"({{"a":"{0}","b":"{1}","c":"{0}"}})", kFirst, kSecond);
  for (const char* good : {"{}", R"({"total_size":12})", R"({"total_size":12.0})", "null"}) {
    write_index(folder, map, good);
    EXPECT_THAT(Checkpoint::open(folder.path()).warnings(), IsEmpty()) << good;
  }
  for (const char* bad : {"13", "-1", "\"12\"", "12.5"}) {
    write_index(folder, map, fmt::format(R"({{"total_size":{}}})", bad));
    EXPECT_THAT(
        Checkpoint::open(folder.path()).warnings(),
        ElementsAre(AllOf(HasSubstr(fmt::format("total_size is {}", bad)), HasSubstr("12 bytes"))));
  }
}

TEST(Checkpoint, a_malformed_index_is_refused) {
  const TempFolder folder;
  const auto with = [&](const char* text) {
    folder.write("model.safetensors.index.json", text);
    const std::string message = refusal(folder);
    EXPECT_THAT(message, HasSubstr("model.safetensors.index.json"));
    return message;
  };
  EXPECT_THAT(with("[]"), HasSubstr("the index: expected an object, found array"));
  EXPECT_THAT(with("{}"), HasSubstr("weight_map: expected an object with tensors, found null"));
  EXPECT_THAT(with(R"({"weight_map":{}})"), HasSubstr("weight_map"));
  EXPECT_THAT(with(R"({"weight_map":{"a":1}})"), HasSubstr("shard of \"a\""));
  EXPECT_THAT(with(R"({"weight_map":{"a":"s","a":"t"}})"), HasSubstr("given twice"));
  EXPECT_THAT(with("{"), HasSubstr("not valid JSON"));
}

TEST(Checkpoint, a_bad_shard_is_refused_by_name) {
  const TempFolder folder;
  write_sharded(folder);
  fs::resize_file(folder.path() / kSecond, fs::file_size(folder.path() / kSecond) - 1);
  EXPECT_THAT(refusal(folder), AllOf(HasSubstr(kSecond), HasSubstr("tensor \"b\"")));
}

TEST(Checkpoint, a_folder_without_weights_says_what_was_looked_for) {
  const TempFolder folder;
  EXPECT_THAT(refusal(folder),
              AllOf(HasSubstr(folder.path().string()), HasSubstr("no weights"),
                    HasSubstr("expected model.safetensors or model.safetensors.index.json")));
  folder.write("pytorch_model.bin", "x");
  EXPECT_THAT(refusal(folder), HasSubstr("pytorch_model.bin is there: convert it to safetensors"));
  folder.write("other.safetensors", "x");
  EXPECT_THAT(refusal(folder), HasSubstr("only other.safetensors"));
}

TEST(Checkpoint, the_model_must_be_a_folder) {
  const TempFolder folder;
  const auto file = folder.write("model.safetensors", scalars({{"a", 1}}));
  EXPECT_THAT(error_of([&] { Checkpoint::open(file); }), HasSubstr("not a folder"));
  EXPECT_THAT(error_of([&] { Checkpoint::open(folder.path() / "gone"); }),
              AllOf(HasSubstr("gone"), HasSubstr("does not exist")));
}

TEST(Checkpoint, S32_a_changed_shard_is_found) {
  const TempFolder folder;
  write_sharded(folder);
  const Checkpoint checkpoint = Checkpoint::open(folder.path());
  EXPECT_NO_THROW(checkpoint.check_unchanged());
  fs::resize_file(folder.path() / kSecond, 8);
  EXPECT_THAT(error_of([&] { checkpoint.check_unchanged(); }), HasSubstr(kSecond));
}

// Written by transformers; the values as the Python package safetensors reads them.
TEST(Checkpoint, opens_a_published_model) {
  const Checkpoint checkpoint = Checkpoint::open(SHARDLM_TEST_DATA "/models/tiny_gpt2_hf");
  EXPECT_THAT(checkpoint.warnings(), IsEmpty());
  EXPECT_EQ(checkpoint.tensors().size(), 16U);
  EXPECT_EQ(checkpoint.file_bytes(), 9880U);
  const HostTensor* wte = checkpoint.find("wte.weight");
  ASSERT_NE(wte, nullptr);
  EXPECT_THAT(wte->shape, ElementsAre(21, 2));
  std::vector<float> values(42);
  wte->read(0, values);
  EXPECT_EQ(values[0], 0.03195413947105408F);
  EXPECT_EQ(values[1], -0.004759139847010374F);
  EXPECT_EQ(values[41], 0.013292407F);
}

}  // namespace
}  // namespace shardlm
