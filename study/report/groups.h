// Which rows belong in one picture: those that differ only in what the picture varies.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "study/report/facts.h"

namespace shardlm::report {

using Rows = std::vector<const BenchRow*>;

struct Group {
  std::map<std::string, std::string> setting;  ///< what its rows have in common
  Rows rows;
};
/// Rows whose settings are equal but for the names in `varied`, in the order of the rows. Of a test
/// that several cells made (decoding, where only prompts differ) the first cell's.
std::vector<Group> group_rows(const std::vector<BenchRow>& rows,
                              const std::set<std::string>& varied);

/// A name and a value as people say it: "batch 8", "4 ranks", "wire bf16", "no overlap".
std::string setting_phrase(const std::string& name, const std::string& value);
/// Of each group, what sets it apart from the others; "all" where nothing does.
std::vector<std::string> group_labels(const std::vector<Group>& groups);
std::vector<std::string> row_labels(const Rows& rows);
/// "decode of 64 tokens, batch 1, prompt …": all that is worth saying of a row.
std::string row_phrase(const BenchRow& row);

/// A rank count of a scaling curve.
struct ScalingStep {
  const BenchRow* row = nullptr;
  Summary speedup;                        ///< T(base) / T(P); of weak scaling: of the work a second
  Summary efficiency;                     ///< speed-up / (P / P of the base)
  std::optional<double> karp_flatt = {};  ///< (1/S - 1/P) / (1 - 1/P), where the base is one rank
  std::optional<double> compute_scaling =
      {};  ///< compute of the base / compute of all ranks together
};
struct Scaling {
  Group group;
  std::vector<ScalingStep> steps;  ///< by ranks, ascending; the first is the base
  bool weak = false;
  const BenchRow& base() const { return *steps.front().row; }
  const ScalingStep& best() const;  ///< the highest rate (weak: the most ranks)
};
/// Strong: the same work at two rank counts or more. The first is the study's main story: decoding,
/// most rank counts, smallest batch, nothing unusual.
std::vector<Scaling> strong_scalings(const Facts& facts);
/// Weak: the model grows with the ranks, and no rank count has two models.
std::vector<Scaling> weak_scalings(const Facts& facts);

/// What takes most of the efficiency.
struct Limit {
  std::string name;    ///< "transfer"
  double factor = 1;   ///< of 1
  std::string reason;  ///< for people
};
std::optional<Limit> limit_of(const ScalingStep& step);

/// False of rounded sums, whose speed stands beside their quality only, and of messages alone.
bool tells_speed(const BenchRow& row);

/// "noisy", "more ranks than cores", "emulated", "approximate", joined; empty if nothing.
std::string doubts(const BenchRow& row);

}  // namespace shardlm::report
