// What a machine's files say, from folders made up here.
#include "launcher/host_facts.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace shardlm {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;

class HostFactsTest : public testing::Test {
 protected:
  void SetUp() override {
    root_ = std::filesystem::path(testing::TempDir()) /
            (std::string("shardlm_host_") +
             testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::remove_all(root_);
    put("proc/meminfo", "MemTotal:       16777216 kB\nMemFree: 5 kB\nMemAvailable: 8388608 kB\n");
  }
  void put(const std::string& path, const std::string& text) {
    std::filesystem::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
  }
  HostFacts facts() const { return read_host_facts(root_); }
  std::filesystem::path root_;
};

TEST_F(HostFactsTest, MemoryAndPages) {
  put("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n");
  const HostFacts f = facts();
  EXPECT_EQ(f.memory_bytes, 16 * kGiB);
  EXPECT_EQ(f.memory_available_bytes, 8 * kGiB);
  EXPECT_FALSE(f.memory_limit_bytes);
  EXPECT_EQ(f.usable_bytes(), 8 * kGiB);
  EXPECT_EQ(f.huge_pages, "madvise");
  EXPECT_EQ(f.page_bytes, static_cast<std::uint64_t>(getpagesize()));
  EXPECT_EQ(f.pid, getpid());
  EXPECT_FALSE(f.cores.empty());
}

TEST_F(HostFactsTest, WhatIsMissingIsLeftOut) {
  std::filesystem::remove_all(root_);
  const HostFacts f = facts();
  EXPECT_EQ(f.memory_bytes, 0U);
  EXPECT_EQ(f.huge_pages, "");
  EXPECT_THAT(f.numa_nodes, IsEmpty());
  EXPECT_FALSE(f.shm_free_bytes);
}

TEST_F(HostFactsTest, TheLeastLimitOfTheControlGroupsAboveCounts) {
  put("proc/self/cgroup", "0::/job/task\n");
  put("sys/fs/cgroup/job/task/memory.max", "max\n");
  EXPECT_FALSE(facts().memory_limit_bytes);
  put("sys/fs/cgroup/job/memory.max", std::to_string(4 * kGiB) + "\n");
  EXPECT_EQ(facts().memory_limit_bytes, 4 * kGiB);
  EXPECT_EQ(facts().usable_bytes(), 4 * kGiB);
  put("sys/fs/cgroup/memory.max", std::to_string(2 * kGiB) + "\n");
  EXPECT_EQ(facts().memory_limit_bytes, 2 * kGiB);
}

TEST_F(HostFactsTest, ControlGroupsOfVersionOne) {
  put("proc/self/cgroup", "5:cpu:/\n4:memory:/job\n0::/\n");
  put("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_FALSE(facts().memory_limit_bytes);
  put("sys/fs/cgroup/memory/job/memory.limit_in_bytes", std::to_string(kGiB) + "\n");
  EXPECT_EQ(facts().memory_limit_bytes, kGiB);
}

TEST_F(HostFactsTest, NumaNodesAreThoseOfTheProcessesCores) {
  const std::vector<int> mine = facts().cores;
  put("sys/devices/system/node/node0/cpulist", "100000\n");
  put("sys/devices/system/node/node11/cpulist", number_list_text(mine) + "\n");
  put("sys/devices/system/node/online", "0-11\n");
  EXPECT_THAT(facts().numa_nodes, ElementsAre(11));
}

TEST_F(HostFactsTest, ThisMachineHasMemoryAndCores) {
  const HostFacts f = read_host_facts();
  EXPECT_GT(f.memory_bytes, 0U);
  EXPECT_GT(f.usable_bytes(), 0U);
  EXPECT_LE(f.usable_bytes(), f.memory_bytes);
}

TEST(NumberList, ToAndFrom) {
  EXPECT_THAT(parse_number_list("0-2,5\n"), ElementsAre(0, 1, 2, 5));
  EXPECT_THAT(parse_number_list("7"), ElementsAre(7));
  EXPECT_THAT(parse_number_list(""), IsEmpty());
  EXPECT_THAT(parse_number_list("\n"), IsEmpty());
  EXPECT_THAT(parse_number_list("a-b"), IsEmpty());
  EXPECT_THAT(parse_number_list("0-99999999999"), IsEmpty());
  EXPECT_EQ(number_list_text(std::vector<int>{0, 1, 2, 5, 7, 8}), "0-2,5,7-8");
  EXPECT_EQ(number_list_text({}), "");
}

}  // namespace
}  // namespace shardlm
