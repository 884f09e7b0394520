#include "base/checked.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>

namespace shardlm {
namespace {

constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
constexpr std::uint64_t kUnsignedMax = std::numeric_limits<std::uint64_t>::max();

TEST(Checked, products) {
  EXPECT_EQ(checked_mul<std::int64_t>(3, 4), 12);
  EXPECT_EQ(checked_mul<std::int64_t>(kMax, 1), kMax);
  EXPECT_EQ(checked_mul<std::int64_t>(kMax, 0), 0);
  EXPECT_FALSE(checked_mul<std::int64_t>(kMax, 2).has_value());
  EXPECT_FALSE(checked_mul<std::int64_t>(1LL << 32, 1LL << 31).has_value());
  EXPECT_EQ(checked_mul<std::uint64_t>(1ULL << 32, 1ULL << 31), 1ULL << 63);
  EXPECT_FALSE(checked_mul<std::uint64_t>(1ULL << 32, 1ULL << 32).has_value());
}

TEST(Checked, sums) {
  EXPECT_EQ(checked_add<std::uint64_t>(kUnsignedMax - 1, 1), kUnsignedMax);
  EXPECT_FALSE(checked_add<std::uint64_t>(kUnsignedMax, 1).has_value());
  EXPECT_FALSE(checked_add<std::int64_t>(kMax, 1).has_value());
}

}  // namespace
}  // namespace shardlm
