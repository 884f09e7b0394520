#include "base/error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace shardlm {
namespace {

TEST(Error, describe_joins_the_parts_that_are_given) {
  EXPECT_EQ(describe({.what = "tensor x: shape",
                      .expected = "[4]",
                      .found = "[5]",
                      .where = "m.safetensors",
                      .remedy = "convert it again"}),
            "m.safetensors: tensor x: shape: expected [4], found [5]; convert it again");
  EXPECT_EQ(describe({.what = "cannot be opened", .where = "f"}), "f: cannot be opened");
  EXPECT_EQ(describe({.what = "a"}), "a");
  EXPECT_EQ(describe({.what = "a", .expected = "b"}), "a: expected b");
  EXPECT_EQ(describe({.what = "a", .found = "c"}), "a: found c");
  EXPECT_EQ(describe({.what = "a", .remedy = "d"}), "a; d");
  EXPECT_EQ(describe({}), "");
}

TEST(Error, fail_throws_with_code_and_text) {
  try {
    fail(ExitCode::usage, {.what = "no such flag", .where = "--x"});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::usage);
    EXPECT_STREQ(error.what(), "--x: no such flag");
  }
}

TEST(Error, check_names_the_callers_place) {
  EXPECT_NO_THROW(check(true, "fine"));
  const int line = __LINE__ + 2;
  try {
    check(false, "sizes differ");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::bug);
    EXPECT_THAT(error.what(), testing::HasSubstr("error_test.cc:" + std::to_string(line)));
    EXPECT_THAT(error.what(), testing::HasSubstr("sizes differ"));
  }
}

// The numbers are a promise to scripts.
TEST(Error, exit_codes) {
  EXPECT_EQ(static_cast<int>(ExitCode::ok), 0);
  EXPECT_EQ(static_cast<int>(ExitCode::bug), 1);
  EXPECT_EQ(static_cast<int>(ExitCode::usage), 2);
  EXPECT_EQ(static_cast<int>(ExitCode::model_files), 3);
  EXPECT_EQ(static_cast<int>(ExitCode::peer), 4);
  EXPECT_EQ(static_cast<int>(ExitCode::resources), 5);
}

}  // namespace
}  // namespace shardlm
