#include "io/repeated_memory.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/error.h"

namespace shardlm {
namespace {

TEST(RepeatedMemory, IsThePatternAgainAndAgain) {
  std::vector<std::byte> pattern(3 * RepeatedMemory::granule());
  for (std::size_t i = 0; i < pattern.size(); ++i) pattern[i] = static_cast<std::byte>(i * 7 % 251);
  const RepeatedMemory memory(pattern, 10 * pattern.size() + 1);
  ASSERT_GE(memory.bytes().size(), 10 * pattern.size() + 1);
  for (std::size_t i = 0; i < memory.bytes().size(); i += 97) {
    ASSERT_EQ(memory.bytes()[i], pattern[i % pattern.size()]) << i;
  }
}

TEST(RepeatedMemory, MoreThanAnyMachineHasIsRefused) {
  const std::vector<std::byte> pattern(RepeatedMemory::granule());
  try {
    const RepeatedMemory memory(pattern, std::size_t{1} << 61);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::resources);
    EXPECT_NE(std::string(error.what()).find("mmap"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace shardlm
