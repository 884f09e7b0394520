// What a study is going to do, in full: cells, commands, order. It is kept as plan.json in the
// study's folder, and all that a runner needs stands in it.
#pragma once

#include <filesystem>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "study/sweep/budget.h"

namespace shardlm {

inline constexpr const char* kPlanSchema = "shardlm plan 1";

struct SweepPlan {
  std::string study;
  int method_version = 0;  ///< of the measurements: those of different ones are never compared
  std::string yaml_hash;   ///< of the file's bytes
  std::string model = {}, shape = {};
  std::vector<std::pair<std::string, std::string>> made_by = {};  ///< program, version, commit
  std::vector<Factor> factors = {};
  RepeatSpec repeat = {};
  std::map<std::string, std::string> env = {};  ///< set for every job
  double timeout_s = 300;
  int cores = 0;  ///< of this machine, where the jobs run; 0: elsewhere
  bool predict = false, report = true;
  std::vector<Cell> cells = {};
  std::vector<LaunchRef> order = {};
  std::optional<double> budget_minutes = {};
};

/// The object of plan.json, with a hash of all the rest.
nlohmann::ordered_json plan_json(const SweepPlan& plan);
/// The inverse. Error(model_files) naming `where` if it is none, or if it was changed by hand.
SweepPlan plan_from_json(const nlohmann::ordered_json& object, const std::string& where);
SweepPlan read_plan(const std::filesystem::path& folder);

/// FNV-1a, 64 bits, as 16 digits.
std::string text_hash(std::string_view text);

}  // namespace shardlm
