// The plan's file, the file of launches, and two studies compared.
#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/error.h"
#include "study/sweep/cells_file.h"
#include "study/sweep/compare.h"

namespace shardlm {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;
using testing::ElementsAre;
using testing::HasSubstr;

fs::path new_folder() {
  const auto* test = testing::UnitTest::GetInstance()->current_test_info();
  const fs::path folder = fs::path(testing::TempDir()) /
                          (std::string("shardlm_") + test->test_suite_name() + "." + test->name() +
                           std::to_string(::getpid()));
  fs::remove_all(folder);
  fs::create_directories(folder);
  return folder;
}

std::string bytes_of(const fs::path& path) {
  std::ostringstream bytes;
  bytes << std::ifstream(path, std::ios::binary).rdbuf();
  return bytes.str();
}

SweepPlan small_plan() {
  SweepPlan plan;
  plan.study = "s";
  plan.method_version = 2;
  plan.yaml_hash = text_hash("x");
  plan.made_by = {{"version", "1"}};
  plan.factors = {{"ranks", {"1", "2"}}, {"batch", {"1"}}};
  plan.repeat = {.launches = 2, .ci_width = 0.02, .seed = 18446744073709551615ULL};
  plan.env = {{"A", "b"}};
  plan.predict = true;
  plan.cells = {
      {.id = "c001", .factors = {{"ranks", "1"}}, .command = {"x", "y z"}, .guess_s = 1.5},
      {.id = "c002", .kind = CellKind::coll, .factors = {{"ranks", "2"}}, .skipped = "no"}};
  plan.order = {{0, 0}, {0, 1}};
  plan.budget_minutes = 3;
  return plan;
}

TEST(SweepPlanFile, IsReadBackWhole) {
  const SweepPlan plan = small_plan();
  const SweepPlan again = plan_from_json(Json::parse(plan_json(plan).dump(1)), "plan.json");
  EXPECT_EQ(plan_json(again), plan_json(plan));
  EXPECT_EQ(again.order, plan.order);
  EXPECT_EQ(again.cells[1].skipped, "no");
  EXPECT_EQ(again.repeat.seed, plan.repeat.seed);
  EXPECT_EQ(again.factors[0].levels, plan.factors[0].levels);
}

TEST(SweepPlanFile, AChangedOneIsRefused) {
  Json object = plan_json(small_plan());
  object["cells"][0]["command"][0] = "other";
  EXPECT_THROW(plan_from_json(object, "plan.json"), Error);
  EXPECT_THROW(plan_from_json(Json::array(), "plan.json"), Error);
  EXPECT_THROW(plan_from_json({{"schema", kPlanSchema}}, "plan.json"), Error);
  EXPECT_THROW(read_plan(new_folder()), Error);
}

Json launch_of(const std::string& cell, int launch) {
  return {{"cell", cell}, {"launch", launch}, {"status", "ok"}, {"wall_s", 1.0}};
}

TEST(CellsFile, KeepsWhatItWasGiven) {
  const fs::path folder = new_folder();
  {
    CellsFile file(folder);
    EXPECT_TRUE(file.records().lines.empty());
    file.append(launch_of("c001", 0));
    file.append({{"cell", "c002"}, {"launch", 0}, {"status", "failed"}, {"messages", "\xff"}});
  }
  const CellRecords records = read_cell_records(folder / "cells.jsonl");
  ASSERT_EQ(records.lines.size(), 2U);
  EXPECT_EQ(records.lines[1].at("messages"), "\xef\xbf\xbd");
  EXPECT_EQ(records.note, "");
}

// Whatever byte the crash came after: what was whole stays, and the file can be gone on with.
TEST(CellsFile, ATornLineIsDroppedWhereverItTears) {
  const fs::path folder = new_folder();
  const fs::path path = folder / "cells.jsonl";
  const std::string first = launch_of("c001", 0).dump() + "\n";
  const std::string second = launch_of("c002", 0).dump();
  for (std::size_t n = 1; n <= second.size(); ++n) {
    std::ofstream(path, std::ios::binary) << first << second.substr(0, n);
    EXPECT_THAT(read_cell_records(path).note, HasSubstr("last line, 2,"));
    CellsFile file(folder);
    ASSERT_EQ(file.records().lines.size(), 1U);
    file.append(launch_of("c003", 0));
    EXPECT_EQ(bytes_of(path), first + launch_of("c003", 0).dump() + "\n");
  }
}

TEST(CellsFile, AnotherBadLineIsRefusedByItsNumber) {
  const fs::path folder = new_folder();
  for (const char* bad : {"nonsense\n", "{}\n", "[]\n", "\n", "{\"cell\":1}\n"}) {
    std::ofstream(folder / "cells.jsonl", std::ios::binary) << launch_of("c1", 0).dump() << "\n"
                                                            << bad;
    try {
      read_cell_records(folder / "cells.jsonl");
      ADD_FAILURE() << bad;
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("cells.jsonl:2:"));
    }
  }
}

TEST(CellsFile, TwoRunnersAreOneTooMany) {
  const fs::path folder = new_folder();
  const CellsFile first(folder);
  try {
    const CellsFile second(folder);
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::usage);
    EXPECT_THAT(error.what(), HasSubstr("another shardlm study"));
  }
}

TEST(LaunchInterval, SaysMinAndMaxBelowSixLaunches) {
  const LaunchInterval five = launch_interval({5, 1, 4, 2, 3});
  EXPECT_FALSE(five.confidence);
  EXPECT_EQ(five.middle, 3);
  EXPECT_EQ(five.low, 1);
  EXPECT_EQ(five.high, 5);
  EXPECT_THAT(interval_text(five), HasSubstr("min..max"));
  EXPECT_THAT(interval_text(launch_interval({7})), HasSubstr("1 launch"));
}

// The table of order statistics for a median, Conover 1999, table A3: n = 8: 1, 9: 2, 15: 4, 20: 6.
TEST(LaunchInterval, OfOrderStatistics) {
  const auto k_of = [](int n) {
    std::vector<double> values;
    for (int i = 1; i <= n; ++i) values.push_back(i);
    const LaunchInterval interval = launch_interval(values);
    EXPECT_TRUE(interval.confidence);
    EXPECT_EQ(interval.low + interval.high, n + 1);
    return interval.low;
  };
  EXPECT_EQ(k_of(6), 1);
  EXPECT_EQ(k_of(8), 1);
  EXPECT_EQ(k_of(9), 2);
  EXPECT_EQ(k_of(15), 4);
  EXPECT_EQ(k_of(20), 6);
}

StudyRecords records_of(std::vector<double> speeds, int method = 2, const std::string& cpu = "x") {
  StudyRecords study{"study", small_plan(), {}};
  study.plan.method_version = method;
  for (std::size_t i = 0; i < speeds.size(); ++i) {
    Json launch = launch_of("c001", static_cast<int>(i));
    launch["kind"] = "bench";
    launch["factors"] = {{"ranks", "2"}};
    launch["results"] = {{{"test", "tg8"},
                          {"tokens_per_s", speeds[i]},
                          {"method_version", method},
                          {"environment", {{"cpu", cpu}}}}};
    study.launches.push_back(std::move(launch));
  }
  return study;
}

Verdict verdict_of(std::vector<double> a, std::vector<double> b) {
  const StudyComparison all = compare_studies(records_of(std::move(a)), records_of(std::move(b)));
  EXPECT_EQ(all.tests.size(), 1U);
  return all.tests.at(0).verdict;
}

TEST(CompareStudies, ByIntervalsThatDoNotOverlap) {
  EXPECT_EQ(verdict_of({10, 11, 12}, {13, 14, 15}), Verdict::faster);
  EXPECT_EQ(verdict_of({13, 14, 15}, {10, 11, 12}), Verdict::slower);
  EXPECT_EQ(verdict_of({10, 11, 12}, {12, 14, 15}), Verdict::no_difference);
  EXPECT_EQ(verdict_of({10}, {20, 21}), Verdict::unknown);
}

TEST(CompareStudies, OfCollectivesLessTimeIsFaster) {
  const auto coll = [](double us) {
    StudyRecords study = records_of({1, 1});
    for (Json& launch : study.launches) {
      launch["kind"] = "coll";
      launch["results"] = {
          {{"op", "all_reduce"}, {"algorithm", "ring"}, {"bytes", 64}, {"t_p50_us", us}}};
    }
    return study;
  };
  const StudyComparison all = compare_studies(coll(4), coll(2));
  ASSERT_EQ(all.tests.size(), 1U);
  EXPECT_EQ(all.tests[0].verdict, Verdict::faster);
  EXPECT_EQ(all.tests[0].ratio, 2);
  EXPECT_EQ(all.tests[0].test, "all_reduce ring 64 B");
}

TEST(CompareStudies, OtherMethodsAreRefusedAndOtherMachinesNamed) {
  EXPECT_THROW(compare_studies(records_of({1}, 1), records_of({1}, 2)), Error);
  const StudyComparison all = compare_studies(records_of({1}), records_of({1}, 2, "y"));
  EXPECT_THAT(all.warnings, ElementsAre("cpu differs: x and y"));
}

TEST(CompareStudies, FailedLaunchesAndCellsWithoutACounterpart) {
  StudyRecords a = records_of({10, 11}), b = records_of({10, 11});
  a.launches[1]["status"] = "failed";
  b.launches[0]["factors"] = {{"ranks", "3"}};
  const StudyComparison all = compare_studies(a, b);
  ASSERT_EQ(all.tests.size(), 1U);
  EXPECT_EQ(all.tests[0].a.launches, 1);
  EXPECT_THAT(all.only_b, ElementsAre("bench ranks=3 tg8"));
  EXPECT_TRUE(all.only_a.empty());
}

}  // namespace
}  // namespace shardlm
