// Two studies of the same cells, for instance before and after a change.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "study/sweep/launch_interval.h"
#include "study/sweep/sweep_plan.h"

namespace shardlm {

struct StudyRecords {
  std::string name;  ///< the folder, for messages
  SweepPlan plan;
  std::vector<nlohmann::ordered_json> launches;  ///< lines of cells.jsonl
};

enum class Verdict { faster, slower, no_difference, unknown };
std::string name(Verdict verdict);

/// One test of a cell that both have.
struct ComparedTest {
  std::string kind;  ///< bench, coll
  Factors factors;
  std::string test;    ///< "tg64", "all_reduce ring 4096 B"
  std::string metric;  ///< "tokens_per_s", "t_p50_us"
  LaunchInterval a, b;
  double ratio = 0;  ///< how many times as fast B is
  Verdict verdict = Verdict::unknown;
};

struct StudyComparison {
  std::vector<ComparedTest> tests;
  std::vector<std::string> only_a, only_b;  ///< cells and tests without a counterpart
  std::vector<std::string> warnings;        ///< other machine, other build
};

/// Matches cells by their factors. B is faster or slower if the intervals of the launches' medians
/// do not overlap, else there is no difference; with one launch on a side the verdict is unknown.
/// Error(usage) if the methods of measuring differ.
StudyComparison compare_studies(const StudyRecords& a, const StudyRecords& b);

}  // namespace shardlm
