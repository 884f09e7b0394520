#include "comm/blocking_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>

namespace shardlm {
namespace {

TEST(BlockingWatch, SpeaksOnceTheTimeIsUp) {
  std::promise<std::string> told;
  const BlockingWatch watch("MPI_Finalize", 1e-3,
                            [&](const std::string& text) { told.set_value(text); });
  EXPECT_THAT(told.get_future().get(),
              testing::ContainsRegex("^MPI_Finalize has not ended within 0.001 s, since "
                                     "[0-9][0-9]:[0-9][0-9]:[0-9][0-9] UTC"));
}

TEST(BlockingWatch, IsSilentAboutWhatEndsInTimeOrHasNoLimit) {
  int told = 0;
  for (const double limit_s : {1000.0, 1e300, 0.0, -1.0}) {
    const BlockingWatch watch("MPI_Init", limit_s, [&](const std::string&) { ++told; });
  }
  EXPECT_EQ(told, 0);
}

TEST(BlockingWatch, EndsTheProcessWithTheCodeOfAMissingPeer) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(end_process_late("MPI_Finalize has not ended"), testing::ExitedWithCode(4),
              "error: MPI_Finalize has not ended");
}

}  // namespace
}  // namespace shardlm
