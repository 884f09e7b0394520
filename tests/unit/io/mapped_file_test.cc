#include "io/mapped_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "tests/unit/io/file_fixtures.h"

namespace shardlm {
namespace {

namespace fs = std::filesystem;
using test::error_of;
using test::TempFolder;
using testing::AllOf;
using testing::HasSubstr;

std::string text(const MappedFile& file) {
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

TEST(MappedFile, shows_the_bytes) {
  const TempFolder folder;
  const std::string content("a\0b\xff", 4);
  const MappedFile file(folder.write("f", content));
  EXPECT_EQ(text(file), content);
  EXPECT_EQ(file.path(), (folder.path() / "f").string());
  EXPECT_NO_THROW(file.check_unchanged());
}

TEST(MappedFile, an_empty_file_has_no_bytes) {
  const TempFolder folder;
  EXPECT_TRUE(MappedFile(folder.write("f", "")).bytes().empty());
}

TEST(MappedFile, bytes_keep_their_address_when_moved) {
  const TempFolder folder;
  MappedFile a(folder.write("a", "first"));
  MappedFile b(folder.write("b", "second"));
  const std::byte* address = a.bytes().data();
  MappedFile moved(std::move(a));
  EXPECT_EQ(moved.bytes().data(), address);
  b = std::move(moved);
  EXPECT_EQ(b.bytes().data(), address);
  EXPECT_EQ(text(b), "first");
  EXPECT_EQ(b.path(), (folder.path() / "a").string());
}

TEST(MappedFile, errors_name_the_file_and_the_reason) {
  const TempFolder folder;
  const auto refusal = [&](const char* name) {
    const std::string message = error_of([&] { MappedFile(folder.path() / name); });
    EXPECT_THAT(message, HasSubstr((folder.path() / name).string()));
    return message;
  };
  EXPECT_THAT(refusal("missing"), HasSubstr(std::strerror(ENOENT)));
  fs::create_directory(folder.path() / "dir");
  EXPECT_THAT(refusal("dir"), HasSubstr("is a folder"));
  fs::create_symlink("loop", folder.path() / "loop");
  EXPECT_THAT(refusal("loop"), HasSubstr(std::strerror(ELOOP)));
  fs::create_symlink("nowhere", folder.path() / "dangling");
  EXPECT_THAT(refusal("dangling"), HasSubstr(std::strerror(ENOENT)));
  ASSERT_EQ(::mkfifo((folder.path() / "pipe").c_str(), 0600), 0);
  EXPECT_THAT(refusal("pipe"), HasSubstr("not a regular file"));  // and does not wait for a writer
}

TEST(MappedFile, a_file_without_permission_is_refused) {
  if (::geteuid() == 0) GTEST_SKIP() << "root may read everything";
  const TempFolder folder;
  const fs::path path = folder.write("f", "x");
  fs::permissions(path, fs::perms::none);
  EXPECT_THAT(error_of([&] { MappedFile{path}; }), HasSubstr(std::strerror(EACCES)));
}

TEST(MappedFile, finds_a_change_in_place) {
  const TempFolder folder;
  const fs::path path = folder.write("f", "12345678");
  const MappedFile file(path);
  ASSERT_EQ(::truncate(path.c_str(), 4), 0);
  EXPECT_THAT(error_of([&] { file.check_unchanged(); }),
              AllOf(HasSubstr(path.string()), HasSubstr("expected 8 bytes"), HasSubstr("4 bytes")));

  const MappedFile again(path);
  fs::last_write_time(path, fs::last_write_time(path) + std::chrono::hours(1));
  EXPECT_THAT(error_of([&] { again.check_unchanged(); }), HasSubstr("a new time"));
}

TEST(PointerText, is_refused_with_a_hint) {
  const std::string pointer =
      "version https://git-lfs.github.com/spec/v1\noid sha256:" + std::string(64, 'a') +
      "\nsize 548105171\n";
  EXPECT_THAT(error_of([&] { refuse_pointer_text(test::as_bytes(pointer), "m.safetensors"); }),
              AllOf(HasSubstr("m.safetensors"), HasSubstr("pointer"), HasSubstr("git lfs pull")));
  for (const char* other :
       {"", "version 1\n", "version 1\noid x\n", "Version 1\noid x\nsize 3\n"}) {
    EXPECT_NO_THROW(refuse_pointer_text(test::as_bytes(other), "f"));
  }
}

}  // namespace
}  // namespace shardlm
