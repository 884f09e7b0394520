#include "launcher/predict_options.h"

#include <gmock/gmock.h>

#include "launcher/link_measuring.h"
#include "tests/unit/launcher/parse.h"

namespace shardlm {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

std::vector<std::int64_t> ranks(const std::string& text) {
  return parse_rank_list(text, "--ranks");
}

TEST(RankList, HasNumbersDoublingsAndRanges) {
  EXPECT_THAT(ranks("3"), ElementsAre(3));
  EXPECT_THAT(ranks("4,1,2"), ElementsAre(1, 2, 4));
  EXPECT_THAT(ranks("1..10"), ElementsAre(1, 2, 4, 8, 10));
  EXPECT_THAT(ranks("3..12"), ElementsAre(3, 6, 12));
  EXPECT_THAT(ranks("2-5"), ElementsAre(2, 3, 4, 5));
  EXPECT_THAT(ranks("1,2,4..16,3"), ElementsAre(1, 2, 3, 4, 8, 16));
  EXPECT_THAT(ranks("1..1024"), SizeIs(11));
}

TEST(RankList, RefusesWhatIsNone) {
  for (const char* wrong : {"", "0", "-1", "1..", "..4", "4..2", "5-2", "1...4", "x", "1..x",
                            "1-65536", "65537", "99999999999999999999", "1,,2"}) {
    EXPECT_THROW(ranks(wrong), Error) << wrong;
  }
}

TEST(PredictOptions, NeedAModelAndLinks) {
  const auto o = parse_as<PredictOptions>(
      {"predict", "--shape", "gpt2", "--link", "10gbe", "--ranks", "1..8", "--nodes", "2"});
  EXPECT_THAT(o.ranks, ElementsAre(1, 2, 4, 8));
  EXPECT_EQ(o.nodes, 2);
  EXPECT_THAT(usage_error({"predict", "--shape", "gpt2"}), HasSubstr("--link"));
  EXPECT_THAT(usage_error({"predict", "--link", "shm"}), HasSubstr("--shape"));
  const auto refused = [](std::vector<std::string> more) {
    more.insert(more.begin(), {"predict", "--shape", "gpt2"});
    return usage_error(more);
  };
  EXPECT_THAT(refused({"--link", "11gbe"}), HasSubstr("10gbe"));
  EXPECT_THAT(refused({"--link", "shm", "--nodes", "2", "--ranks-per-node", "2"}),
              HasSubstr("--ranks-per-node"));
  EXPECT_THAT(refused({"--link", "shm", "--read-gbps", "0"}), HasSubstr("above 0"));
  EXPECT_THAT(refused({"--link", "shm", "--allreduce", "rong"}), HasSubstr("--allreduce"));
  EXPECT_THAT(refused({"--link", "shm", "--emulate", "x"}), HasSubstr("--emulate"));
  EXPECT_THAT(refused({"--link", "shm", "--phase", "training"}), HasSubstr("prefill"));
}

TEST(CalibrateOptions, HaveDefaults) {
  const auto o = parse_as<CalibrateOptions>({"calibrate", "--emulate", "latency_us=5"});
  EXPECT_EQ(o.seconds, 1);
  EXPECT_EQ(o.emulate, "latency_us=5");
  EXPECT_THAT(usage_error({"calibrate", "--seconds", "0"}), HasSubstr("--seconds"));
}

TEST(LinkPairs, AreFewAndOfEveryKind) {
  const auto machines = ranks_by_machine({0, 0, 2, 2, 0, 5});
  EXPECT_THAT(machines, ElementsAre(ElementsAre(0, 1, 4), ElementsAre(2, 3), ElementsAre(5)));
  EXPECT_THAT(pairs_inside(machines), ElementsAre(RankPair{0, 1}, RankPair{0, 4}, RankPair{2, 3}));
  EXPECT_THAT(pairs_between(machines), ElementsAre(RankPair{0, 2}, RankPair{0, 5}, RankPair{2, 5}));
  EXPECT_THAT(pairs_inside(ranks_by_machine({0, 0})), ElementsAre(RankPair{0, 1}));
  EXPECT_THAT(pairs_between(ranks_by_machine({0, 0})), SizeIs(0));
  EXPECT_THAT(pairs_between(ranks_by_machine({0, 1})), ElementsAre(RankPair{0, 1}));
  EXPECT_THAT(pairs_inside(ranks_by_machine({0, 1})), SizeIs(0));
}

}  // namespace
}  // namespace shardlm
