#include "io/printable.h"

#include <gtest/gtest.h>

namespace shardlm {
namespace {

TEST(Printable, escapes_what_a_terminal_must_not_get) {
  EXPECT_EQ(printable("h.0 ~"), "h.0 ~");
  EXPECT_EQ(printable(std::string_view("a\0\x1b\x7f\xff\n", 6)), "a\\x00\\x1b\\x7f\\xff\\x0a");
  EXPECT_EQ(in_quotes("x"), "\"x\"");
}

TEST(Printable, bounds_the_length) {
  EXPECT_EQ(printable("abcdef", 6), "abcdef");
  EXPECT_EQ(printable("abcdefg", 6), "abcdef... (7 bytes)");
}

}  // namespace
}  // namespace shardlm
