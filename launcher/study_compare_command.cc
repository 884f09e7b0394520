#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <ostream>

#include "base/log.h"
#include "launcher/study_command.h"
#include "study/sweep/cells_file.h"
#include "study/sweep/compare.h"

namespace shardlm {
namespace {

using Json = nlohmann::ordered_json;

StudyRecords read_study(const std::string& folder) {
  StudyRecords study{folder, read_plan(folder), {}};
  CellRecords records = read_cell_records(std::filesystem::path(folder) / "cells.jsonl");
  if (!records.note.empty()) log::warning(records.note);
  study.launches = std::move(records.lines);
  return study;
}

Json interval_json(const LaunchInterval& x) {
  return {{"median", x.middle},
          {"low", x.low},
          {"high", x.high},
          {"launches", x.launches},
          {"interval", x.confidence ? "95 % CI" : "min..max"}};
}

Json comparison_json(const StudyComparison& all) {
  Json tests = Json::array();
  for (const ComparedTest& t : all.tests) {
    tests.push_back({{"kind", t.kind},
                     {"factors", t.factors},
                     {"test", t.test},
                     {"metric", t.metric},
                     {"a", interval_json(t.a)},
                     {"b", interval_json(t.b)},
                     {"ratio", t.ratio},
                     {"verdict", name(t.verdict)}});
  }
  return {{"tests", std::move(tests)},
          {"only_a", all.only_a},
          {"only_b", all.only_b},
          {"warnings", all.warnings}};
}

void print_table(const StudyComparison& all, std::ostream& out) {
  for (const ComparedTest& t : all.tests) {
    out << fmt::format("{:<13} {:5.2f} x  {} {}\n", name(t.verdict), t.ratio,
                       factors_text(t.factors), t.test);
    out << fmt::format("    {}: A {}; B {}\n", t.metric, interval_text(t.a), interval_text(t.b));
  }
  for (const std::string& cell : all.only_a) out << "only in A: " << cell << '\n';
  for (const std::string& cell : all.only_b) out << "only in B: " << cell << '\n';
  const auto of = [&](Verdict verdict) {
    return std::ranges::count(all.tests, verdict, &ComparedTest::verdict);
  };
  out << fmt::format(
      "B against A: {} faster, {} slower, {} no difference, {} unknown (one launch)\n",
      of(Verdict::faster), of(Verdict::slower), of(Verdict::no_difference), of(Verdict::unknown));
  const bool weak = std::ranges::any_of(
      all.tests, [](const ComparedTest& t) { return !t.a.confidence || !t.b.confidence; });
  if (weak) {
    out << fmt::format(
        "below {} launches an interval is the least and the largest, not one of 95 %\n",
        kLaunchesForConfidence);
  }
}

}  // namespace

int run_study_compare(const StudyCompareOptions& options, std::ostream& out) {
  const StudyComparison all =
      compare_studies(read_study(options.folders[0]), read_study(options.folders[1]));
  for (const std::string& warning : all.warnings) log::warning(warning);
  if (options.shared.json) {
    out << comparison_json(all).dump() << '\n';
  } else {
    print_table(all, out);
  }
  return 0;
}

}  // namespace shardlm
