#include "study/comm_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "study/rank_segments.h"
#include "study/statistics.h"
#include "tests/unit/study/one_pass.h"

namespace shardlm {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

constexpr double kMs = 1e-6, kS = 1e-9;

ModelConfig model_of(std::int64_t layers, std::int64_t width) {
  ModelConfig config;
  config.n_layer = layers;
  config.n_embd = width;
  return config;
}

TEST(RankSegments, TileTheRun) {
  const MergedRun run = one_pass().merge();
  const std::vector<std::vector<std::string>> names = {
      {"sample", "step", "embed", "embed", "attention[0]", "attn_out[0]", "lm_head", "lm_head",
       "sample"},
      {"step", "embed", "embed", "attention[0]", "attn_out[0]", "lm_head", "lm_head", "host"}};
  for (std::size_t rank = 0; rank < 2; ++rank) {
    std::int64_t now = 0;
    std::vector<std::string> found;
    for (const RankSegment& s : rank_segments(run, rank)) {
      EXPECT_EQ(s.begin, now);
      EXPECT_LT(s.begin, s.end);
      now = s.end;
      found.push_back(segment_name(run, rank, s));
    }
    EXPECT_EQ(now, 1000);
    EXPECT_EQ(found, names[rank]);
  }
}

TEST(CommReport, SaysWhereEachRanksTimeWent) {
  const CommReport report = make_comm_report(one_pass().merge(), {});
  ASSERT_EQ(report.ranks.size(), 2U);
  EXPECT_NEAR(report.ranks[0].compute_s, 440 * kS, 1e-15);
  EXPECT_NEAR(report.ranks[0].wait_s, 50 * kS, 1e-15);
  EXPECT_NEAR(report.ranks[0].transfer_s, 210 * kS, 1e-15);
  EXPECT_NEAR(report.ranks[0].other_s, 300 * kS, 1e-15);
  EXPECT_NEAR(report.ranks[1].compute_s, 360 * kS, 1e-15);
  EXPECT_NEAR(report.ranks[1].wait_s, 200 * kS, 1e-15);
  EXPECT_NEAR(report.ranks[1].transfer_s, 140 * kS, 1e-15);
  EXPECT_NEAR(report.ranks[1].other_s, 300 * kS, 1e-15);
  EXPECT_NEAR(report.worst_sum_error, 0, 1e-12);
  EXPECT_TRUE(report.sums_close());
}

TEST(CommReport, SplitsTheLossIntoFactors) {
  const CommReport report = make_comm_report(one_pass().merge(), {});
  ASSERT_EQ(report.phases.size(), 1U);
  const PhaseRow& p = report.phases[0];
  EXPECT_EQ(p.phase, Phase::decode);
  EXPECT_EQ(p.steps, 1U);
  EXPECT_EQ(p.tokens, 1U);
  // Up to the answers rank 0 takes 800, rank 1 700 ns; outside of calls 540 and 360, of which the
  // longer ones between calls are 100 + 230 + 200 + 50.
  EXPECT_NEAR(p.step_ms, 750 * kMs, 1e-12);
  EXPECT_NEAR(p.load_balance, 450.0 / 540, 1e-12);
  EXPECT_NEAR(p.serialisation, 540.0 / 580, 1e-12);
  EXPECT_NEAR(p.transfer, 580.0 / 750, 1e-12);
  EXPECT_NEAR(p.parallel(), 450.0 / 750, 1e-12);
  EXPECT_NEAR(p.compute_ms + p.wait_ms + p.transfer_ms + p.other_ms, p.step_ms, 1e-12);
}

TEST(CommReport, SaysWhatEachSiteCosts) {
  const CommReport report = make_comm_report(one_pass().merge(), {});
  ASSERT_EQ(report.sites.size(), 4U);
  const SiteRow& plan = report.sites[0];
  EXPECT_EQ(site_text(plan.site), "step");
  EXPECT_NEAR(plan.call_ms, 65 * kMs, 1e-12);
  EXPECT_NEAR(plan.wait_ms, 50 * kMs, 1e-12);
  EXPECT_NEAR(plan.transfer_ms, 15 * kMs, 1e-12);
  EXPECT_EQ(plan.bytes, 40U);
  EXPECT_FALSE(plan.wire_tx);
  const SiteRow& attention = report.sites[2];
  EXPECT_EQ(site_text(attention.site), "attn_out");
  EXPECT_NEAR(attention.call_ms, 105 * kMs, 1e-12);
  EXPECT_NEAR(attention.wait_ms, 50 * kMs, 1e-12);
  EXPECT_NEAR(attention.share, 105.0 / 750, 1e-12);
  EXPECT_NEAR(attention.median_transfer_us, 0.060, 1e-12);
  EXPECT_EQ(attention.wire_tx, 48U);
  EXPECT_EQ(attention.calls, 1U);
  EXPECT_EQ(attention.algorithms, "direct");
  EXPECT_FALSE(attention.p50_us) << "of one sample nothing is said";
  EXPECT_FALSE(attention.model_us) << "one size gives no fit";
}

MadeUp layers(std::uint64_t bytes) {
  MadeUp made(2, 0, 10'000);
  std::int64_t t = 0;
  for (std::uint64_t n = 1; n <= 2; ++n) {
    made.step({n, Phase::decode, 3}, {{t, t + 1000}, {t, t + 1000}});
    made.sum({SiteKind::embed}, bytes, {{t + 10, t + 30}, {t + 10, t + 30}});
    for (int l = 0; l < 2; ++l) {
      for (const SiteKind kind : {SiteKind::attn_out, SiteKind::mlp_out}) {
        t += 100;
        made.sum({kind, l}, bytes, {{t, t + 20 + l}, {t, t + 20 + l}});
      }
    }
    t += 1000;
  }
  return made;
}

TEST(CommReport, SumsLayersOrShowsThem) {
  const MergedRun run = layers(96).merge();
  const CommReport summed = make_comm_report(run, {}),
                   apart = make_comm_report(run, {.per_layer = true});
  ASSERT_EQ(summed.sites.size(), 3U);
  EXPECT_EQ(summed.sites[1].calls, 4U);
  EXPECT_EQ(summed.sites[1].steps, 2U);
  EXPECT_NEAR(summed.sites[1].call_ms, 41 * kMs, 1e-12);
  ASSERT_EQ(apart.sites.size(), 5U);
  EXPECT_EQ(site_text(apart.sites[2].site), "attn_out[1]");
  EXPECT_NEAR(apart.sites[2].call_ms, 21 * kMs, 1e-12);
}

TEST(CommReport, ChecksCountsAndBytesAgainstTheModel) {
  // 3 tokens x 8 elements x 4 bytes; 2 layers: 5 sums.
  const ReportQuestion question{.model = model_of(2, 8)};
  EXPECT_TRUE(make_comm_report(layers(96).merge(), question).traffic_as_expected);
  EXPECT_FALSE(make_comm_report(layers(92).merge(), question).traffic_as_expected);
  const CommReport other = make_comm_report(layers(96).merge(), {.model = model_of(3, 8)});
  EXPECT_FALSE(other.traffic_as_expected);
  EXPECT_THAT(other.traffic_check, HasSubstr("0 of 2 passes have the 7 all-reduces"));
  EXPECT_THAT(report_text(other), HasSubstr("WRONG COUNTS"));
}

TEST(CommReport, KnowsThatSumsInTheBackgroundAreOfHalfTheRows) {
  // Of 3 tokens x 8 elements x 4 bytes a half each, in 2 layers: 10 sums.
  const auto pass = [](int n_sums, std::uint64_t bytes) {
    MadeUp made(2, 0, 10'000);
    made.step({1, Phase::prefill, 3}, {{0, 5000}, {0, 5000}});
    for (int i = 0; i < n_sums; ++i)
      made.sum({SiteKind::embed}, bytes, {{100 * i, 100 * i + 20}, {100 * i, 100 * i + 20}});
    for (RankRecords& rank : made.ranks()) {
      for (auto& call : rank.calls) call.blocked = 5;
    }
    return make_comm_report(made.merge(), {.model = model_of(2, 8)}).traffic_as_expected;
  };
  EXPECT_TRUE(pass(10, 48));
  EXPECT_FALSE(pass(5, 96)) << "one was lost, of each";
  EXPECT_FALSE(pass(10, 96));
}

TEST(CommReport, CountsMessagesByTheirSize) {
  MadeUp made(1);
  std::int64_t t = 0;
  for (const std::uint64_t bytes : {0U, 1U, 3072U, 2048U, 4095U, 4096U}) {
    made.sum({SiteKind::embed}, bytes, {{t, t + 1}});
    t += 2;
  }
  const CommReport report = make_comm_report(made.merge(), {});
  ASSERT_EQ(report.sizes.size(), 4U);
  EXPECT_EQ(report.sizes[0].to, 1U);
  EXPECT_EQ(report.sizes[0].calls, 1U);
  EXPECT_EQ(report.sizes[2].from, 2048U);
  EXPECT_EQ(report.sizes[2].to, 4096U);
  EXPECT_EQ(report.sizes[2].calls, 3U);
  EXPECT_EQ(report.sizes[2].bytes, 9215U);
  EXPECT_EQ(report.sizes[3].calls, 1U);
}

TEST(CommReport, ComparesWithAModelThatItIsGivenOrFits) {
  MadeUp made(2);
  std::int64_t t = 0;
  for (const std::uint64_t bytes : {1000U, 3000U}) {  // direct: 10 us + 2 ns a byte, both ways
    const auto ns = static_cast<std::int64_t>(10'000 + 2 * bytes);
    made.sum({SiteKind::embed}, bytes, {{t, t + ns}, {t, t + ns}});
    t += 100'000;
  }
  const CommReport fitted = make_comm_report(made.merge(), {});
  EXPECT_THAT(fitted.model_source, HasSubstr("fit"));
  EXPECT_NEAR(*fitted.sites[0].model_us, 14, 1e-6);
  EXPECT_NEAR(*fitted.sites[0].efficiency, 1, 1e-6);
  const LinkCost link{.alpha_s = 5e-6, .beta_s_per_byte = 1e-9, .source = "tune"};
  const CommReport given = make_comm_report(made.merge(), {.link = link});
  EXPECT_EQ(given.model_source, "tune");
  EXPECT_NEAR(*given.sites[0].model_us, 7, 1e-6);
  EXPECT_NEAR(*given.sites[0].efficiency, 0.5, 1e-6);
}

TEST(CommReport, SaysLoudlyWhatItDoesNotKnow) {
  MadeUp made = one_pass();
  made.ranks()[0].dropped_calls = 7;
  const std::string text = report_text(make_comm_report(made.merge(), {}));
  EXPECT_THAT(text, HasSubstr("INCOMPLETE: the 7 oldest calls"));
  EXPECT_THAT(report_text(make_comm_report(one_pass().merge(), {})), Not(HasSubstr("INCOMPLETE")));
}

TEST(CommReport, SeesThatSumsDoNotClose) {
  MadeUp made = one_pass();
  MergedRun run = made.merge();
  run.ranks[1].wall_ns = 1011;
  const CommReport report = make_comm_report(run, {});
  EXPECT_NEAR(report.worst_sum_error, 11.0 / 1011, 1e-12);
  EXPECT_FALSE(report.sums_close());
  EXPECT_THAT(report_text(report), HasSubstr("MORE THAN 1 %"));
}

TEST(CommReport, AsTextAndAsJson) {
  const CommReport report = make_comm_report(one_pass().merge(), {});
  const std::string text = report_text(report);
  EXPECT_THAT(text, HasSubstr("communication of 2 ranks, 4 calls"));
  EXPECT_THAT(text, HasSubstr("0 violations of causality"));
  EXPECT_THAT(text, HasSubstr("attn_out"));
  const auto json = nlohmann::json::parse(report_json(report));
  EXPECT_EQ(json["ranks"][1]["host"], "node1");
  EXPECT_EQ(json["sites"][2]["sent_bytes_all_ranks"], 48);
  EXPECT_TRUE(json["sites"][0]["sent_bytes_all_ranks"].is_null());
  EXPECT_NEAR(json["phases"][0]["parallel_efficiency"].get<double>(), 0.6, 1e-12);
}

TEST(CommReport, TellsWhatIsHiddenBehindComputation) {
  MadeUp made(2, 0, 1000);
  made.step({1, Phase::prefill, 9}, {{0, 1000}, {0, 1000}});
  // Rank 0: 200 to 500, of which the last 60 held it up; it waited until 450.
  made.sum({SiteKind::embed}, 24, {{200, 500}, {450, 500}});
  made.ranks()[0].calls[0].blocked = 60;
  made.ranks()[1].calls[0].blocked = 0;
  const CommReport report = make_comm_report(made.merge(), {});
  EXPECT_NEAR(report.ranks[0].wait_s, 10 * kS, 1e-15);
  EXPECT_NEAR(report.ranks[0].transfer_s, 50 * kS, 1e-15);
  EXPECT_NEAR(report.ranks[0].compute_s, 940 * kS, 1e-15);
  EXPECT_NEAR(report.ranks[1].compute_s, 1000 * kS, 1e-15);
  EXPECT_NEAR(report.sites[0].call_ms, 175 * kMs, 1e-12);
  EXPECT_NEAR(report.sites[0].hidden_ms, 145 * kMs, 1e-12);  // (240 + 50) / 2
  EXPECT_NEAR(report.phases[0].overlap(), 290.0 / 350, 1e-12);
  EXPECT_TRUE(report.sums_close());
}

TEST(CommReport, OfOneRankWithoutCalls) {
  MadeUp made(1, 0, 1000);
  made.step({1, Phase::prefill, 5}, {{100, 400}});
  const MergedRun run = made.merge();
  const CommReport report = make_comm_report(run, {});
  EXPECT_NEAR(report.ranks[0].compute_s, 300 * kS, 1e-15);
  EXPECT_NEAR(report.ranks[0].other_s, 700 * kS, 1e-15);
  EXPECT_TRUE(report.sums_close());
  EXPECT_FALSE(report_text(report).empty());
}

TEST(Statistics, QuantilesAreNumpysAndNeedSamples) {
  std::vector<double> values = {4, 1, 3, 2};
  EXPECT_DOUBLE_EQ(quantile(values, 0.5), 2.5);    // numpy.quantile([4, 1, 3, 2], 0.5)
  EXPECT_DOUBLE_EQ(quantile(values, 0.99), 3.97);  // numpy.quantile(…, 0.99)
  std::vector<double> many(39, 1.0);
  EXPECT_FALSE(supported_quantile(many, 0.5));
  many.push_back(1.0);
  EXPECT_TRUE(supported_quantile(many, 0.5));
  EXPECT_FALSE(supported_quantile(many, 0.99));
  many.resize(2000, 1.0);
  EXPECT_TRUE(supported_quantile(many, 0.99));
}

}  // namespace
}  // namespace shardlm
