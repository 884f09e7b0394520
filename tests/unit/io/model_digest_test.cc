#include "io/model_digest.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/unit/io/file_fixtures.h"

namespace shardlm {
namespace {

namespace fs = std::filesystem;
using test::TempFolder;

ModelDigest digest(const TempFolder& folder) {
  return digest_model(folder.path(), Checkpoint::open(folder.path()));
}

std::string weights(const std::string& name, const std::string& dtype, const std::string& shape,
                    const std::string& data) {
  return test::safetensors(
      fmt::format(R"({{"{}":{{"dtype":"{}","shape":{},"data_offsets":[0,{}]}}}})", name, dtype,
                  shape, data.size()),
      data);
}

class ModelDigestTest : public testing::Test {
 protected:
  ModelDigestTest() {
    folder_.write("config.json", R"({"n_embd":4})");
    folder_.write("vocab.json", R"({"a":0})");
    folder_.write("merges.txt", "a b\n");
    folder_.write("model.safetensors", weights("x", "F32", "[2,4]", std::string(32, '\1')));
    original_ = digest(folder_);
  }
  // What differs after the change, by first_difference().
  std::string difference() const { return first_difference(original_, digest(folder_)); }

  TempFolder folder_;
  ModelDigest original_;
};

// FNV-1a of no bytes is its offset basis; of file names and contents as the header describes them,
// worked out with a few lines of Python.
TEST_F(ModelDigestTest, hashes_are_fnv_1a) {
  const TempFolder bare;
  bare.write("model.safetensors", test::safetensors("{}"));
  const ModelDigest empty = digest(bare);
  EXPECT_EQ(empty.config, 0xcbf29ce484222325U);
  EXPECT_EQ(empty.tokenizer, 0xcbf29ce484222325U);
  EXPECT_EQ(empty.samples, 0xcbf29ce484222325U);
  EXPECT_EQ(empty.file_bytes, 10U);
  EXPECT_EQ(original_.config, 0x3328087658a84d39U);
  EXPECT_EQ(original_.samples, 0x38df9853f4efb1c5U);
}

TEST_F(ModelDigestTest, equal_folders_have_equal_digests) {
  const TempFolder copy;
  for (const char* name : {"config.json", "vocab.json", "merges.txt", "model.safetensors"}) {
    copy.write(name, test::read_file(folder_.path() / name));
  }
  copy.write("README.md", "not looked at");
  EXPECT_EQ(original_, digest(copy));
  EXPECT_EQ(first_difference(original_, digest(copy)), "");
}

TEST_F(ModelDigestTest, config) {
  folder_.write("config.json", R"({"n_embd":5})");
  EXPECT_EQ(difference(), "config");
  folder_.write("config.json", R"({"n_embd":4})");
  EXPECT_EQ(difference(), "");
  folder_.write("generation_config.json", "{}");
  EXPECT_EQ(difference(), "config");
}

TEST_F(ModelDigestTest, tokenizer) {
  for (const char* name : {"vocab.json", "merges.txt", "tokenizer.json", "tokenizer_config.json",
                           "added_tokens.json", "special_tokens_map.json"}) {
    const std::string before = test::read_file(folder_.path() / name);
    folder_.write(name, "{}");
    EXPECT_EQ(difference(), "tokenizer") << name;
    if (before.empty()) {
      fs::remove(folder_.path() / name);
    } else {
      folder_.write(name, before);
    }
    EXPECT_EQ(difference(), "") << name;
  }
  fs::remove(folder_.path() / "merges.txt");
  EXPECT_EQ(difference(), "tokenizer");
}

TEST_F(ModelDigestTest, bytes_moved_from_one_file_to_the_next_differ) {
  folder_.write("vocab.json", R"({"a":0}a)");
  folder_.write("merges.txt", " b\n");
  EXPECT_EQ(difference(), "tokenizer");
}

TEST_F(ModelDigestTest, tensor_table) {
  const std::string data(32, '\1');
  for (const std::string& bytes :
       {weights("y", "F32", "[2,4]", data), weights("x", "I32", "[2,4]", data),
        weights("x", "F32", "[4,2]", data), weights("x", "F32", "[8]", data)}) {
    folder_.write("model.safetensors", bytes);
    EXPECT_EQ(difference(), "tensor table");
  }
}

TEST_F(ModelDigestTest, file_size) {
  const std::string header = R"({"x":{"dtype":"F32","shape":[2,4],"data_offsets":[0,32]}} )";
  folder_.write("model.safetensors", test::safetensors(header, std::string(32, '\1')));
  EXPECT_EQ(difference(), "file size");
}

TEST_F(ModelDigestTest, every_byte_of_a_small_model_counts) {
  for (std::size_t i = 0; i < 32; ++i) {
    std::string data(32, '\1');
    data[i] = '\2';
    folder_.write("model.safetensors", weights("x", "F32", "[2,4]", data));
    EXPECT_EQ(difference(), "sampled data") << i;
  }
}

TEST_F(ModelDigestTest, an_unreadable_file_is_an_error) {
  fs::create_symlink("tokenizer.json", folder_.path() / "tokenizer.json");
  EXPECT_THAT(test::error_of([&] { digest(folder_); }), testing::HasSubstr("tokenizer.json"));
}

TEST_F(ModelDigestTest, a_file_changed_since_it_was_opened_is_an_error) {
  const Checkpoint checkpoint = Checkpoint::open(folder_.path());
  fs::resize_file(folder_.path() / "model.safetensors", 20);
  EXPECT_THAT(test::error_of([&] { digest_model(folder_.path(), checkpoint); }),
              testing::HasSubstr("changed while it was in use"));
}

// 64 blocks of 4096 over 1,000,000 bytes: block i begins at floor(995904 i / 63), so the gaps are
// 995904 / 63 - 4096 = 11712 bytes.
TEST(ModelDigestSamples, blocks_are_spread_from_the_first_byte_to_the_last) {
  const auto with_byte = [](std::size_t at) {
    const TempFolder folder;
    std::string data(1'000'000, '\0');
    data[at] = '\1';
    folder.write("model.safetensors", weights("x", "U8", "[1000000]", data));
    return digest(folder).samples;
  };
  const std::uint64_t unseen = with_byte(4096);  // the first byte after block 0
  EXPECT_EQ(with_byte(15'807), unseen);          // the last one before block 1
  for (const std::size_t seen : {0, 4095, 15'808, 15'808 + 4095, 995'904, 999'999}) {
    EXPECT_NE(with_byte(seen), unseen) << seen;
  }
  EXPECT_EQ(with_byte(995'903), unseen);
}

TEST(ModelDigestSamples, shards_are_sampled_as_one_stretch) {
  const auto sampled = [](std::size_t first_size, std::size_t at) {
    const TempFolder folder;
    std::string data(600'000, '\0');
    data[at] = '\1';
    const std::string a = data.substr(0, first_size), b = data.substr(first_size);
    folder.write("a.safetensors", weights("a", "U8", fmt::format("[{}]", a.size()), a));
    folder.write("b.safetensors", weights("b", "U8", fmt::format("[{}]", b.size()), b));
    folder.write("model.safetensors.index.json",
                 R"({"weight_map":{"a":"a.safetensors","b":"b.safetensors"}})");
    return digest(folder).samples;
  };
  // Cut inside a block (block 1 begins at floor(595904 / 63) = 9458) or not: the same samples.
  for (const std::size_t at : {0, 9'458, 11'000, 13'553, 599'999}) {
    EXPECT_EQ(sampled(10'000, at), sampled(300'000, at)) << at;
    EXPECT_NE(sampled(10'000, at), sampled(10'000, 5'000)) << at;
  }
}

TEST(ModelDigestOrder, first_difference_names_the_first_part) {
  const ModelDigest zero;
  EXPECT_EQ(first_difference(zero, {.config = 1, .tokenizer = 1}), "config");
  EXPECT_EQ(first_difference(zero, {.tokenizer = 1, .samples = 1}), "tokenizer");
  EXPECT_EQ(first_difference(zero, {.tensor_table = 1, .file_bytes = 1}), "tensor table");
  EXPECT_EQ(first_difference(zero, {.file_bytes = 1, .samples = 1}), "file size");
  EXPECT_EQ(first_difference(zero, {.samples = 1}), "sampled data");
}

}  // namespace
}  // namespace shardlm
