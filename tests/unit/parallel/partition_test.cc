#include "parallel/partition.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace shardlm {
namespace {

TEST(Partition, shares_are_contiguous_cover_all_and_differ_by_at_most_one) {
  for (const std::int64_t n : {0, 1, 3, 5, 12, 25, 64, 1280, 4097, 50257}) {
    for (int size = 1; size <= 64; ++size) {
      const Partition p(n, size);
      std::int64_t next = 0, least = n, most = 0;
      for (int r = 0; r < size; ++r) {
        const Range share = p.of(r);
        ASSERT_EQ(share.begin, next);
        next = share.end;
        least = std::min(least, share.size());
        most = std::max(most, share.size());
      }
      ASSERT_EQ(next, n);
      ASSERT_LE(most - least, 1);
    }
  }
}

TEST(Partition, larger_shares_come_first) {
  EXPECT_EQ(Partition(5, 2).of(0), (Range{0, 3}));
  EXPECT_EQ(Partition(5, 2).of(1), (Range{3, 5}));
  EXPECT_EQ(Partition(2, 4).of(3), (Range{2, 2}));  // more ranks than units
}

TEST(Partition, a_range_of_heads_scales_to_columns) {
  EXPECT_EQ(scaled({2, 5}, 64), (Range{128, 320}));
}

}  // namespace
}  // namespace shardlm
