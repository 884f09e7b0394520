#include "launcher/cores.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace shardlm {
namespace {

using testing::HasSubstr;

CoreShare share(int cores, int sharers, bool first = true) {
  return {.cores = cores, .sharers = sharers, .first_sharer = first, .node_cores = cores};
}

TEST(Cores, are_divided_among_the_ranks_that_share_them) {
  EXPECT_EQ(auto_threads(share(8, 2)), 4);
  EXPECT_EQ(auto_threads(share(8, 3)), 2);
  EXPECT_EQ(auto_threads(share(1, 1)), 1);
  EXPECT_EQ(auto_threads(share(2, 64)), 1);
}

TEST(Cores, a_warning_comes_from_one_rank_and_names_the_flag_that_mends_it) {
  EXPECT_EQ(core_warning(share(2, 2), 1), "");
  EXPECT_EQ(core_warning(share(1, 1, false), 8), "");
  const std::string text = core_warning(share(1, 1), 4);
  EXPECT_THAT(text, HasSubstr("--threads 1"));
  EXPECT_THAT(text, HasSubstr("--bind-to none"));
  EXPECT_THAT(core_warning(share(2, 5), 1), HasSubstr("fewer ranks"));
}

}  // namespace
}  // namespace shardlm
