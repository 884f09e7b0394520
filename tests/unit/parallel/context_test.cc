#include "parallel/context.h"

#include <gtest/gtest.h>

namespace shardlm {
namespace {

Precision of(DType weights) { return {.weights = weights}; }

TEST(Blocks, OfExactSumsLieWhollyOnOneRank) {
  for (const DType type : {DType::f32, DType::bf16, DType::f16, DType::q8, DType::q4}) {
    const std::int64_t granule = fixed_granule(type);
    EXPECT_EQ(column_block(of(type), Reduction::exact), 64);
    for (std::int64_t head_dim = 1; head_dim <= 260; ++head_dim) {
      const std::int64_t heads = head_block(of(type), Reduction::exact, head_dim);
      const std::int64_t unit = heads * head_dim, block = sum_block(of(type), unit);
      EXPECT_EQ(unit % granule, 0) << head_dim;
      for (std::int64_t fewer = 1; fewer < heads; ++fewer) {
        EXPECT_NE(fewer * head_dim % granule, 0) << head_dim;
      }
      EXPECT_TRUE(0 < block && block <= 64 && unit % block == 0 && block % granule == 0);
      for (std::int64_t larger = block + 1; larger <= 64; ++larger) {
        EXPECT_FALSE(unit % larger == 0 && larger % granule == 0) << head_dim << " " << larger;
      }
    }
  }
  EXPECT_EQ(sum_block(of(DType::f32), 64), 64);
  EXPECT_EQ(sum_block(of(DType::f32), 80), 40);
  EXPECT_EQ(sum_block(of(DType::q8), 160), 32);
}

TEST(Blocks, OfOrderedSumsAreAsLargeAsScalesAsk) {
  EXPECT_EQ(head_block(of(DType::q4), Reduction::ordered, 20), 1);
  EXPECT_EQ(column_block(of(DType::f32)), 1);
  EXPECT_EQ(column_block(of(DType::q8)), 32);
}

}  // namespace
}  // namespace shardlm
