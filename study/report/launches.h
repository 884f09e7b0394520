// The results of a study's launches, sorted by cell and test: the step from lines of JSON to rows.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "study/report/json_fields.h"
#include "study/report/study_report.h"

namespace shardlm::report {

/// One result of one launch that ended well.
struct LaunchResult {
  std::string cell;
  std::map<std::string, std::string> factors;
  const Json* result = nullptr;
};
/// Results whose "schema" begins so ("shardlm bench"), in the order of the plan's cells; of a
/// launch that was made twice the later one.
std::vector<LaunchResult> results_of(const StudyData& study, const std::string& schema);

std::map<std::string, std::string> factors_of(const Json& launch);
std::string factors_text(const std::map<std::string, std::string>& factors);  ///< "batch=1 ranks=2"

}  // namespace shardlm::report
