// From a study's files to rows, groups and what is said of them. Studies are written here by hand,
// so that every expected number can be worked out.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <fstream>

#include "base/error.h"
#include "study/report/facts.h"
#include "study/report/groups.h"
#include "study/report/sections.h"
#include "study/report/what_if.h"

namespace shardlm::report {
namespace {

using Json = nlohmann::ordered_json;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

Json bench(int ranks, double ms, double batch = 1) {
  return {{"schema", "shardlm bench 2"},
          {"test", "tg8"},
          {"kind", "decode"},
          {"tokens", 8},
          {"batch", batch},
          {"ranks", ranks},
          {"nodes", 1},
          {"tokens_per_s", 1e3 * batch / ms},
          {"ms_per_step", ms},
          {"wire", "f32"},
          {"allreduce", "auto"},
          {"exactness", "exact"}};
}

Json launch(const std::string& cell, int number, Json results) {
  return {{"cell", cell},
          {"launch", number},
          {"status", "ok"},
          {"factors", Json::object()},
          {"results", std::move(results)}};
}

/// Each rank count's times, a launch each.
StudyData study_of(const std::vector<std::pair<int, std::vector<double>>>& times) {
  StudyData study;
  study.plan = {{"study", "made up"}, {"cells", Json::array()}};
  for (const auto& [ranks, launches] : times) {
    const std::string cell = fmt::format("c{}", ranks);
    study.plan["cells"].push_back({{"id", cell}, {"kind", "bench"}});
    for (std::size_t i = 0; i < launches.size(); ++i) {
      study.launches.push_back(
          launch(cell, static_cast<int>(i), Json::array({bench(ranks, launches[i])})));
    }
  }
  return study;
}

TEST(ReportFacts, a_row_is_a_test_of_a_cell_over_its_launches) {
  const Facts facts = gather_facts(study_of({{1, {10, 12, 11}}, {2, {6, 5, 5.5}}}));
  ASSERT_THAT(facts.benches, SizeIs(2));
  EXPECT_DOUBLE_EQ(facts.benches[0].time_ms.middle, 11);
  EXPECT_EQ(facts.benches[0].rate.launches, 3u);
  EXPECT_DOUBLE_EQ(facts.benches[1].rate.middle, 1000 / 5.5);
}

TEST(ReportFacts, a_launch_that_was_made_again_counts_once_and_failed_ones_not_at_all) {
  StudyData study = study_of({{1, {10}}});
  study.launches.push_back(launch("c1", 0, Json::array({bench(1, 20)})));
  study.launches.push_back({{"cell", "c1"},
                            {"launch", 1},
                            {"status", "failed"},
                            {"exit_code", 5},
                            {"results", Json::array({bench(1, 1)})}});
  const Facts facts = gather_facts(study);
  ASSERT_THAT(facts.benches, SizeIs(1));
  EXPECT_EQ(facts.benches[0].rate.launches, 1u);
  EXPECT_DOUBLE_EQ(facts.benches[0].time_ms.middle, 20);
  ASSERT_THAT(facts.failures, SizeIs(1));
  EXPECT_EQ(facts.failures[0].ending, "exit code 5");
}

TEST(ReportFacts, one_launch_has_the_interval_of_its_repetitions_and_says_so) {
  StudyData study;
  Json result = bench(1, 10);
  result["tokens_per_s_low"] = 80;
  result["tokens_per_s_high"] = 125;
  study.launches.push_back(launch("c", 0, Json::array({result})));
  const BenchRow row = gather_facts(study).benches.at(0);
  EXPECT_EQ(row.rate.spread, Spread::repetitions);
  EXPECT_DOUBLE_EQ(*row.time_ms.low, 8);
  EXPECT_DOUBLE_EQ(*row.time_ms.high, 12.5);
}

TEST(ReportFacts, unusable_results_are_noted) {
  StudyData study;
  Json none = bench(1, 10), negative = bench(1, 10);
  none.erase("ranks");
  negative["tokens_per_s"] = -1;
  study.launches.push_back(launch("c", 0, Json::array({none, negative, 7, nullptr})));
  const Facts facts = gather_facts(study);
  EXPECT_THAT(facts.benches, IsEmpty());
  ASSERT_THAT(facts.notes, SizeIs(1));
  EXPECT_THAT(facts.notes[0], HasSubstr("2 results"));
}

TEST(ReportScaling, speed_up_efficiency_and_serial_fraction) {
  const Facts facts = gather_facts(study_of({{1, {12}}, {2, {8}}, {4, {6}}}));
  const auto scalings = strong_scalings(facts);
  ASSERT_THAT(scalings, SizeIs(1));
  const auto& steps = scalings[0].steps;
  ASSERT_THAT(steps, SizeIs(3));
  EXPECT_DOUBLE_EQ(steps[1].speedup.middle, 1.5);
  EXPECT_DOUBLE_EQ(steps[1].efficiency.middle, 0.75);
  EXPECT_NEAR(*steps[1].karp_flatt, (1 / 1.5 - 0.5) / 0.5, 1e-12);
  EXPECT_NEAR(*steps[2].karp_flatt, (0.5 - 0.25) / 0.75, 1e-12)
      << "both 1/3: a serial share of a third";
  EXPECT_EQ(scalings[0].best().row->ranks, 4);
}

TEST(ReportScaling, the_base_is_the_fewest_ranks_that_ran) {
  const Facts facts = gather_facts(study_of({{2, {8}}, {4, {5}}}));
  const auto scalings = strong_scalings(facts);
  EXPECT_EQ(scalings.at(0).base().ranks, 2);
  EXPECT_DOUBLE_EQ(scalings.at(0).steps[1].efficiency.middle, 0.8);
  EXPECT_FALSE(scalings.at(0).steps[1].karp_flatt) << "it needs one rank";
  EXPECT_THAT(scaling_section(facts), HasSubstr("One rank was not measured; the base is 2 ranks."));
}

TEST(ReportScaling, cells_that_differ_in_more_than_ranks_are_not_one_curve) {
  StudyData study;
  study.launches.push_back(launch("a", 0, Json::array({bench(1, 10, 1)})));
  study.launches.push_back(launch("b", 0, Json::array({bench(2, 10, 4)})));
  const Facts facts = gather_facts(study);
  EXPECT_THAT(strong_scalings(facts), IsEmpty());
  EXPECT_EQ(scaling_section(facts), "");
}

TEST(ReportScaling, weak_where_the_weights_grow_with_the_ranks) {
  StudyData study;
  for (const int ranks : {1, 2}) {
    Json result = bench(ranks, ranks == 1 ? 10 : 12.5);
    result["weight_bytes"] = 1000 * ranks;
    result["model"] = {{"source", fmt::format("width {}", ranks)}};
    study.launches.push_back(launch(fmt::format("c{}", ranks), 0, Json::array({result})));
  }
  const Facts facts = gather_facts(study);
  EXPECT_THAT(strong_scalings(facts), IsEmpty());
  const auto weak = weak_scalings(facts);
  ASSERT_THAT(weak, SizeIs(1));
  EXPECT_DOUBLE_EQ(weak[0].steps[1].efficiency.middle, 0.8)
      << "twice the work in 1.25 of the time on 2 ranks";
}

TEST(ReportScaling, the_smallest_factor_limits) {
  StudyData study;
  Json one = bench(1, 10), two = bench(2, 8);
  one["step_ms"] = {{"compute", 10}, {"wait", 0}, {"transfer", 0}, {"other", 0}};
  two["step_ms"] = {{"compute", 5}, {"wait", 0.5}, {"transfer", 2.5}, {"other", 0}};
  two["load_balance"] = 0.95;
  two["serialisation"] = 1;
  two["transfer_efficiency"] = 0.6875;
  study.launches = {launch("a", 0, Json::array({one})), launch("b", 0, Json::array({two}))};
  const Facts facts = gather_facts(study);
  const auto scalings = strong_scalings(facts);
  const auto limit = limit_of(scalings.at(0).steps.at(1));
  ASSERT_TRUE(limit);
  EXPECT_EQ(limit->name, "transfer");
  EXPECT_DOUBLE_EQ(*scalings[0].steps[1].compute_scaling, 1);
  EXPECT_THAT(answer_section(facts), HasSubstr("Limited most by <b>transfer</b> (factor 0.69)"));
}

TEST(ReportReading, overlapping_spreads_are_no_difference) {
  const Facts apart = gather_facts(study_of({{1, {10, 11}}, {2, {6, 7}}}));
  EXPECT_THAT(scaling_section(apart), Not(HasSubstr("no difference can be claimed")));
  const Facts overlapping = gather_facts(study_of({{1, {10, 11}}, {2, {9, 10.5}}}));
  EXPECT_THAT(scaling_section(overlapping),
              HasSubstr("From 1 to 2 ranks the spreads overlap: no difference can be claimed."));
  const Facts slower = gather_facts(study_of({{1, {10, 11}}, {2, {19, 20}}}));
  EXPECT_THAT(scaling_section(slower), HasSubstr("It gets slower from 1 to 2 ranks."));
  EXPECT_THAT(answer_section(slower), HasSubstr("More ranks than 1 do not pay here."));
}

TEST(ReportReading, no_interval_is_claimed_under_six_launches) {
  const Facts five = gather_facts(study_of({{1, {10, 11, 10, 11, 10}}, {2, {6, 7, 6, 7, 6}}}));
  EXPECT_THAT(scaling_section(five),
              HasSubstr("under 6 launches no confidence interval can be claimed"));
  EXPECT_THAT(answer_section(five), Not(HasSubstr("95 %")));
  const Facts six =
      gather_facts(study_of({{1, {10, 11, 10, 11, 10, 11}}, {2, {6, 7, 6, 7, 6, 7}}}));
  EXPECT_THAT(scaling_section(six), HasSubstr("95 % interval"));
}

TEST(ReportReading, doubts_are_said_beside_the_best) {
  StudyData study = study_of({{1, {10}}, {2, {5}}});
  study.launches[1]["results"][0]["oversubscribed"] = true;
  study.launches[1]["results"][0]["noisy"] = true;
  const Facts facts = gather_facts(study);
  EXPECT_THAT(scaling_section(facts),
              HasSubstr("The fastest cell is noisy, more ranks than cores."));
  EXPECT_THAT(scaling_section(facts), HasSubstr("hollow"));
}

TEST(ReportStrategies, a_rounded_speed_without_its_quality_is_withheld) {
  StudyData study;
  Json base = bench(2, 10), rounded = bench(2, 4.7);
  rounded["wire"] = "bf16";
  rounded["exactness"] = "approximate";
  study.launches = {launch("a", 0, Json::array({base})), launch("b", 0, Json::array({rounded}))};
  EXPECT_THAT(strategies_section(gather_facts(study)), Not(HasSubstr("213")));
  for (const auto& [key, value] : {std::pair{"quality_tokens", 100.0},
                                   {"max_logit_difference", 0.5},
                                   {"top1_agreement", 0.99},
                                   {"kl", 1e-4}})
    study.launches[1]["results"][0][key] = value;
  EXPECT_THAT(strategies_section(gather_facts(study)), HasSubstr("213"));
}

TEST(ReportBytes, counts_are_held_against_the_formula) {
  StudyData study;
  Json result = bench(2, 10);
  result["all_reduce"] = {{"calls_per_step", 25},
                          {"bytes_per_call", 3072},
                          {"sent_bytes_per_step", 153600},
                          {"expected_calls", 25},
                          {"expected_bytes_per_step", 76800},
                          {"counted_bytes_per_step", 76800},
                          {"algorithms", "shm-oneshot"}};
  study.launches = {launch("a", 0, Json::array({result}))};
  EXPECT_THAT(bytes_section(gather_facts(study)),
              HasSubstr("All 1 test agree with the formula to the byte"));
  for (const char* key : {"counted_bytes_per_step", "calls_per_step", "sent_bytes_per_step"}) {
    StudyData wrong = study;
    wrong.launches[0]["results"][0]["all_reduce"][key] = 76804;
    EXPECT_THAT(bytes_section(gather_facts(wrong)), HasSubstr("do not agree")) << key;
  }
}

TEST(ReportWhatIf, computation_and_the_quickest_formula) {
  StudyData study = study_of({{1, {10}}, {2, {6}}});
  for (std::size_t i : {0u, 1u}) {
    Json& r = study.launches[i]["results"][0];
    r["step_ms"] = {{"compute", i == 0 ? 10.0 : 5.0},
                    {"wait", 0},
                    {"transfer", i == 0 ? 0.0 : 1.0},
                    {"other", 0}};
    r["all_reduce"] = {
        {"calls_per_step", 20}, {"bytes_per_call", 1000}, {"counted_bytes_per_step", 20000}};
  }
  const auto w = make_what_if(gather_facts(study));
  ASSERT_TRUE(w);
  ASSERT_THAT(w->ranks, SizeIs(2));
  EXPECT_DOUBLE_EQ(what_if_step(*w, w->ranks[0], w->link).ms, 10);
  // Two ranks exchange once: alpha + n beta by recursive doubling or direct exchange.
  const LinkCost link{.alpha_s = 50e-6,
                      .beta_s_per_byte = 1e-8,
                      .gamma_s_per_byte = 0,
                      .per_message_s = 0,
                      .source = ""};
  EXPECT_NEAR(what_if_step(*w, w->ranks[1], link).ms, 5 + 20 * 1e3 * (50e-6 + 1000 * 1e-8), 1e-9);
}

TEST(ReportFolder, a_torn_last_line_is_left_out_and_told_of) {
  const auto folder =
      std::filesystem::temp_directory_path() / fmt::format("shardlm-report-{}", ::getpid());
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "plan.json") << R"({"study": "x"})";
  std::ofstream(folder / "cells.jsonl")
      << "{\"cell\": \"a\"}\n[]\n\n{\"cell\": \"b\"}\n{\"cell\": \"c";
  const StudyData study = read_study_folder(folder);
  EXPECT_THAT(study.launches, SizeIs(2));
  ASSERT_THAT(study.notes, SizeIs(2));
  EXPECT_THAT(study.notes[0], HasSubstr("Line 2 of cells.jsonl"));
  EXPECT_THAT(study.notes[1], HasSubstr("half written"));
  std::ofstream(folder / "plan.json") << "{";
  EXPECT_THROW(read_study_folder(folder), Error);
  std::filesystem::remove_all(folder);
  EXPECT_THROW(read_study_folder(folder), Error);
}

TEST(ReportPage, nothing_at_all_is_a_page_too) {
  const std::string html = study_report_html({});
  EXPECT_THAT(html, HasSubstr("Nothing was measured."));
  EXPECT_THAT(html, HasSubstr("Not in this study"));
}

}  // namespace
}  // namespace shardlm::report
