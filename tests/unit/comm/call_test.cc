#include "comm/call.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "tests/support/comm_checks.h"

namespace shardlm {
namespace {

TEST(Call, SitesHaveNames) {
  EXPECT_EQ(site_text({SiteKind::load, -1}), "load");
  EXPECT_EQ(site_text({SiteKind::step, -1}), "step");
  EXPECT_EQ(site_text({SiteKind::embed, -1}), "embed");
  EXPECT_EQ(site_text({SiteKind::attn_out, 3}), "attn_out[3]");
  EXPECT_EQ(site_text({SiteKind::mlp_out, 0}), "mlp_out[0]");
  EXPECT_EQ(site_text({SiteKind::lm_head, -1}), "lm_head");
  EXPECT_EQ(site_text({SiteKind::dump, -1}), "dump");
  EXPECT_EQ(call_text({Op::all_reduce, {SiteKind::mlp_out, 11}, 7}),
            "all_reduce at mlp_out[11] (call 7)");
}

TEST(Call, RanksAreShownAsRuns) {
  EXPECT_EQ(ranks_text(std::vector{2}), "rank 2");
  EXPECT_EQ(ranks_text(std::vector{0, 1, 2, 3}), "ranks 0-3");
  EXPECT_EQ(ranks_text(std::vector{0, 2, 3, 7}), "ranks 0, 2-3, 7");
}

TEST(Call, LimitsDependOnTheSite) {
  const Deadlines deadlines{10, 300};
  const Call load{Op::gather, {SiteKind::load, -1}, 1};
  const Call step{Op::broadcast, {SiteKind::step, -1}, 1};
  const Call sum{Op::all_reduce, {SiteKind::attn_out, 0}, 1};
  EXPECT_EQ(wait_limit(load, true, deadlines), 300);
  EXPECT_EQ(wait_limit(sum, true, deadlines), 10);
  EXPECT_EQ(wait_limit(step, false, deadlines), 10);
  EXPECT_EQ(wait_limit(step, true, deadlines), 15);  // the coordinator speaks first
  const Call verdict{Op::broadcast, {SiteKind::load}, 1};
  EXPECT_EQ(wait_limit(verdict, true, deadlines), 305);  // while loading, too
  EXPECT_EQ(wait_limit(step, true, {0, 300}), 0);        // no limit stays none
  EXPECT_EQ(wait_limit(step, true, {-1, 300}), 0);
  EXPECT_EQ(limit_behind(10), 15);
  EXPECT_EQ(limit_behind(0), 0);
}

TEST(Call, AMissingRankIsNamedWithSiteAndNumber) {
  const Call call{Op::all_reduce, {SiteKind::attn_out, 3}, 12};
  try {
    fail_missing(call, std::vector{1, 2}, 0.5);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::peer);
    EXPECT_THAT(error.what(),
                testing::StartsWith("ranks 1-2 did not come to all_reduce at attn_out[3] (call 12) "
                                    "within 0.5 s, since "));
  }
}

TEST(Call, SaysSinceWhenItHasWaited) {
  // 1.7e9 s after 1970 began it was 22:13:20 in Greenwich.
  const std::chrono::system_clock::time_point now{std::chrono::seconds(1'700'000'000)};
  EXPECT_EQ(waited_text(20, now), "within 20 s, since 22:13:00 UTC");
  EXPECT_EQ(waited_text(0.5, now), "within 0.5 s, since 22:13:19 UTC");
}

TEST(Call, SaysWhereAMissingRankWasLastSeen) {
  const Call call{Op::all_reduce, {SiteKind::mlp_out, 3}, 12};
  const std::vector<LastSeen> last{{1, {Op::all_reduce, {SiteKind::attn_out, 3}, 11}}, {2, {}}};
  try {
    fail_missing(call, std::vector{1, 2}, 0.5, last);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(),
                testing::HasSubstr(" UTC (rank 1 was last seen in all_reduce at attn_out[3] "
                                   "(call 11), rank 2 was never seen); "));
  }
}

}  // namespace
}  // namespace shardlm
