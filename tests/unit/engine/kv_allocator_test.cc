#include "engine/kv_allocator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "base/error.h"

namespace shardlm {
namespace {

using Blocks = std::vector<std::int32_t>;
using testing::HasSubstr;

TEST(KvAllocator, CountsWholeBlocks) {
  const KvAllocator allocator(10, 16);
  EXPECT_EQ(allocator.blocks_for(0), 0);
  EXPECT_EQ(allocator.blocks_for(1), 1);
  EXPECT_EQ(allocator.blocks_for(16), 1);
  EXPECT_EQ(allocator.blocks_for(17), 2);
  EXPECT_TRUE(allocator.can_reserve(160));
  EXPECT_FALSE(allocator.can_reserve(161));
  EXPECT_FALSE(allocator.can_reserve(std::numeric_limits<std::int64_t>::max()));
}

TEST(KvAllocator, GivesTheLowestFreeBlocks) {
  KvAllocator allocator(6, 4);
  EXPECT_EQ(allocator.allocate(8), (Blocks{0, 1}));
  EXPECT_EQ(allocator.allocate(5), (Blocks{2, 3}));
  EXPECT_EQ(allocator.allocate(0), Blocks{});
  allocator.release(Blocks{3, 0});
  EXPECT_EQ(allocator.n_free(), 4);
  EXPECT_EQ(allocator.allocate(12), (Blocks{0, 3, 4}));
  EXPECT_EQ(allocator.n_free(), 1);
}

TEST(KvAllocator, RefusesMoreThanIsFreeAndTakesNothing) {
  KvAllocator allocator(3, 4);
  allocator.allocate(4);
  try {
    allocator.allocate(9);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::resources);
    EXPECT_THAT(error.what(), HasSubstr("3 blocks"));
    EXPECT_THAT(error.what(), HasSubstr("2 free of 3"));
  }
  EXPECT_EQ(allocator.allocate(8), (Blocks{1, 2}));
}

TEST(KvAllocator, ABlockIsReleasedOnce) {
  KvAllocator allocator(3, 4);
  const Blocks mine = allocator.allocate(8);
  EXPECT_THROW(allocator.release(Blocks{0, 0}), Error);
  EXPECT_THROW(allocator.release(Blocks{0, 2}), Error);
  EXPECT_THROW(allocator.release(Blocks{3}), Error);
  EXPECT_THROW(allocator.release(Blocks{-1}), Error);
  EXPECT_EQ(allocator.n_free(), 1);
  allocator.release(mine);
  EXPECT_EQ(allocator.n_free(), 3);
  EXPECT_THROW(allocator.release(mine), Error);
}

}  // namespace
}  // namespace shardlm
