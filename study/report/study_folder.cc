#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <optional>
#include <sstream>

#include "base/error.h"
#include "study/report/study_report.h"

namespace shardlm {
namespace {

using Json = nlohmann::ordered_json;
namespace fs = std::filesystem;

std::optional<std::string> file_text(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return std::nullopt;
  std::ostringstream text;
  text << file.rdbuf();
  return std::move(text).str();
}

// An object, or nothing: also of bytes that are no UTF-8.
std::optional<Json> object_of(std::string_view text) {
  Json json = Json::parse(text, nullptr, false);
  if (!json.is_object()) return std::nullopt;
  return json;
}

// The objects of a file by lines; what is none is noted.
std::vector<Json> lines_of(const fs::path& path, std::vector<std::string>& notes) {
  std::vector<Json> all;
  const std::optional<std::string> text = file_text(path);
  if (!text) return all;
  const std::string name = path.filename().string();
  std::size_t number = 0;
  for (std::size_t begin = 0; begin < text->size();) {
    const std::size_t end = std::min(text->find('\n', begin), text->size());
    const std::string_view line = std::string_view(*text).substr(begin, end - begin);
    const bool torn = end == text->size();
    begin = end + 1;
    ++number;
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    if (std::optional<Json> json = object_of(line)) {
      all.push_back(std::move(*json));
    } else if (torn) {
      notes.push_back(fmt::format(
          "The last line of {} (line {}) is half written and was left out: the study was "
          "stopped while writing it.",
          name, number));
    } else {
      notes.push_back(
          fmt::format("Line {} of {} is no JSON object and was left out.", number, name));
    }
  }
  return all;
}

// The object in a file that need not be there; what is none is noted.
std::optional<Json> optional_object(const fs::path& path, std::vector<std::string>& notes) {
  const auto text = file_text(path);
  if (!text) return std::nullopt;
  auto json = object_of(*text);
  if (!json) notes.push_back(path.filename().string() + " is no JSON object and was left out.");
  return json;
}

std::vector<fs::path> further_calibrations(const fs::path& folder) {
  std::vector<fs::path> all;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("calibration-") && name.ends_with(".json")) all.push_back(entry.path());
  }
  std::sort(all.begin(), all.end());
  return all;
}

}  // namespace

StudyData read_study_folder(const fs::path& folder) {
  StudyData study;
  study.folder = fs::absolute(folder).lexically_normal().filename().string();
  if (study.folder.empty()) study.folder = fs::absolute(folder).parent_path().filename().string();
  const fs::path plan_path = folder / "plan.json";
  const std::optional<std::string> plan = file_text(plan_path);
  if (!plan) {
    fail(ExitCode::usage, {.what = "a study's plan",
                           .expected = "a file plan.json that can be read",
                           .found = "none",
                           .where = folder.string(),
                           .remedy = "name a folder that 'study run' has written"});
  }
  std::optional<Json> object = object_of(*plan);
  if (!object) {
    fail(ExitCode::usage, {.what = "a study's plan",
                           .expected = "a JSON object",
                           .found = "something else, or half of one",
                           .where = plan_path.string(),
                           .remedy = "run the study again in a new folder"});
  }
  study.plan = std::move(*object);
  study.yaml = file_text(folder / "study.yaml").value_or("");
  if (auto json = optional_object(folder / "calibration.json", study.notes))
    study.calibration = std::move(*json);
  for (const fs::path& path : further_calibrations(folder)) {
    if (auto json = optional_object(path, study.notes))
      study.more_calibrations.push_back(std::move(*json));
  }
  study.predictions = lines_of(folder / "predictions.jsonl", study.notes);
  study.launches = lines_of(folder / "cells.jsonl", study.notes);
  return study;
}

}  // namespace shardlm
