// The report of a study: one HTML file that needs nothing else.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace shardlm {

/// What a study's folder holds, as the files have it (docs/studies.md): nothing is left out here,
/// failed launches included. Objects keep the order of the files.
struct StudyData {
  std::string folder = {};                  ///< its name, for the title where the plan has none
  std::string yaml = {};                    ///< study.yaml as it was read; empty: there is none
  nlohmann::ordered_json plan = {};         ///< plan.json
  nlohmann::ordered_json calibration = {};  ///< calibration.json; null: there is none
  /// calibration-NAME.json, of further networks, by name
  std::vector<nlohmann::ordered_json> more_calibrations = {};
  std::vector<nlohmann::ordered_json> predictions = {};  ///< a line of predictions.jsonl each
  std::vector<nlohmann::ordered_json> launches =
      {};                               ///< a line of cells.jsonl each: a launch that ended
  std::vector<std::string> notes = {};  ///< what of the files could not be read, for people
};

/// Reads a study's folder. Of the files by lines a line that is no JSON object is left out and
/// noted (the last one is torn where a run was killed while writing it). Throws ExitCode::usage if
/// there is no plan.json or it is no JSON object.
StudyData read_study_folder(const std::filesystem::path& folder);

/// The whole page. Every text from the files is escaped. No numbers but the files' own and what
/// docs/report.md says is computed from them.
std::string study_report_html(const StudyData& study);

}  // namespace shardlm
