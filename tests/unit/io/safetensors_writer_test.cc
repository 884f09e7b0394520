#include "io/safetensors_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <csignal>
#include <cstring>
#include <string>
#include <vector>

#include "io/safetensors.h"
#include "tests/unit/io/file_fixtures.h"

namespace shardlm {
namespace {

namespace fs = std::filesystem;
using test::error_of;
using test::read_file;
using test::TempFolder;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string> files_in(const TempFolder& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder.path())) {
    names.push_back(entry.path().filename().string());
  }
  return names;
}

std::vector<float> values(const HostTensor& tensor) {
  std::vector<float> out(static_cast<std::size_t>(tensor.elements()));
  tensor.read(0, out);
  return out;
}

// No file may become larger than `limit` bytes while this lives; a write beyond fails with EFBIG.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t limit) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    ::getrlimit(RLIMIT_FSIZE, &old_);
    const rlimit now = {limit, old_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &now);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;
  ~FileSizeLimit() {
    ::setrlimit(RLIMIT_FSIZE, &old_);
    std::signal(SIGXFSZ, handler_);
  }

 private:
  rlimit old_ = {};
  void (*handler_)(int);
};

// The bytes, worked out by hand from the format's text: 8-byte length, JSON, spaces, data.
TEST(SafetensorsWriter, writes_the_format) {
  const TempFolder folder;
  const std::vector<float> data = {1, -2, 0.5};
  const std::vector<OutTensor> tensors = {{"b", {2, 1}, std::span(data).first(2)},
                                          {"a", {}, std::span(data).last(1)}};
  write_safetensors(folder.path() / "x.safetensors", tensors);
  std::string header = R"({"b":{"dtype":"F32","shape":[2,1],"data_offsets":[0,8]},)"
                       R"("a":{"dtype":"F32","shape":[],"data_offsets":[8,12]}})";
  ASSERT_EQ(header.size(), 109U);
  header += "   ";  // to 112, a multiple of 8
  EXPECT_EQ(read_file(folder.path() / "x.safetensors"),
            std::string("\x70\0\0\0\0\0\0\0", 8) + header +
                std::string("\0\0\x80\x3f\0\0\0\xc0\0\0\0\x3f", 12));
  EXPECT_THAT(files_in(folder), ElementsAre("x.safetensors"));
}

TEST(SafetensorsWriter, what_it_writes_reads_back) {
  const TempFolder folder;
  const std::vector<float> data = {1, 2, 3, 4, 5, 6, -0.0F};
  const std::string strange("\xc3\xa9\"\\\n\x01\0", 7);
  const std::vector<OutTensor> tensors = {{"h.0.attn", {2, 3}, std::span(data).first(6)},
                                          {"empty", {0, 4}, {}},
                                          {strange, {1}, std::span(data).last(1)}};
  const fs::path path = folder.path() / "x";
  write_safetensors(path, tensors);
  const SafetensorsFile file = SafetensorsFile::open(path);
  ASSERT_EQ(file.tensors().size(), 3U);
  EXPECT_EQ(file.tensors()[0].name, "h.0.attn");
  EXPECT_THAT(file.tensors()[0].shape, ElementsAre(2, 3));
  EXPECT_THAT(values(file.tensors()[0]), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_EQ(file.tensors()[1].name, "empty");
  EXPECT_EQ(file.tensors()[2].name, strange);
  EXPECT_TRUE(std::signbit(values(file.tensors()[2])[0]));
  EXPECT_EQ((file.file_bytes() - file.data().size()) % 8, 0U);

  write_safetensors(folder.path() / "again", tensors);
  EXPECT_EQ(read_file(path), read_file(folder.path() / "again"));
}

TEST(SafetensorsWriter, a_file_without_tensors) {
  const TempFolder folder;
  write_safetensors(folder.path() / "x", {});
  EXPECT_EQ(read_file(folder.path() / "x"), std::string("\x08\0\0\0\0\0\0\0{}      ", 16));
}

TEST(SafetensorsWriter, S31_saving_over_a_mapped_file_keeps_the_mapping) {
  const TempFolder folder;
  const fs::path path = folder.path() / "m.safetensors";
  const std::vector<float> before = {1, 2}, after = {3};
  write_safetensors(path, std::vector<OutTensor>{{"x", {2}, before}});
  const SafetensorsFile old = SafetensorsFile::open(path);
  write_safetensors(path, std::vector<OutTensor>{{"y", {1}, after}});
  EXPECT_THAT(values(old.tensors()[0]), ElementsAre(1, 2));
  EXPECT_NO_THROW(old.check_unchanged());
  EXPECT_THAT(values(SafetensorsFile::open(path).tensors()[0]), ElementsAre(3));
  EXPECT_THAT(files_in(folder), ElementsAre("m.safetensors"));
}

TEST(SafetensorsWriter, a_full_disk_leaves_the_old_file_alone) {
  const TempFolder folder;
  const fs::path path = folder.write("x", "old");
  const std::vector<float> data(4096);
  {
    const FileSizeLimit limit(1000);
    EXPECT_THAT(error_of(
                    [&] {
                      write_safetensors(path, std::vector<OutTensor>{{"x", {4096}, data}});
                    },
                    ExitCode::resources),
                AllOf(HasSubstr(path.string()), HasSubstr("cannot be written"),
                      HasSubstr(std::strerror(EFBIG))));
  }
  EXPECT_EQ(read_file(path), "old");
  EXPECT_THAT(files_in(folder), ElementsAre("x"));
}

TEST(SafetensorsWriter, a_place_that_cannot_be_written_is_a_usage_error) {
  const TempFolder folder;
  const fs::path nowhere = folder.path() / "no" / "x.safetensors";
  EXPECT_THAT(error_of([&] { write_safetensors(nowhere, {}); }, ExitCode::usage),
              AllOf(HasSubstr(nowhere.string()), HasSubstr(std::strerror(ENOENT))));
  fs::create_directory(folder.path() / "dir");
  EXPECT_THAT(error_of([&] { write_safetensors(folder.path() / "dir", {}); }, ExitCode::usage),
              HasSubstr(std::strerror(EISDIR)));
  EXPECT_THAT(files_in(folder), ElementsAre("dir"));
}

TEST(SafetensorsWriter, a_left_over_temporary_file_is_no_obstacle) {
  const TempFolder folder;
  folder.write("x.tmp-" + std::to_string(::getpid()) + "-0", "left over");
  write_safetensors(folder.path() / "x", {});
  EXPECT_EQ(SafetensorsFile::open(folder.path() / "x").tensors().size(), 0U);
}

TEST(SafetensorsWriter, wrong_arguments_are_bugs) {
  const TempFolder folder;
  const std::vector<float> data = {1, 2};
  const auto refusal = [&](std::vector<OutTensor> tensors) {
    return error_of([&] { write_safetensors(folder.path() / "x", tensors); }, ExitCode::bug);
  };
  EXPECT_THAT(refusal({{"x", {3}, data}}), HasSubstr("data do not fit the shape of x"));
  EXPECT_THAT(refusal({{"x", {1LL << 62, 4}, {}}}), HasSubstr("do not fit"));
  EXPECT_THAT(refusal({{"x", {-1}, {}}}), HasSubstr("negative"));
  EXPECT_THAT(refusal({{"x", {2}, data}, {"x", {2}, data}}), HasSubstr("given twice"));
  EXPECT_THAT(refusal({{"__metadata__", {2}, data}}), HasSubstr("__metadata__"));
  EXPECT_THAT(refusal({{"\xff", {2}, data}}), HasSubstr("not UTF-8"));
  EXPECT_TRUE(files_in(folder).empty());
}

}  // namespace
}  // namespace shardlm
