// The words of `shardlm` that measure a cell, and those that predict one: the one place that knows
// the options of bench, bench coll, calibrate and predict.
#pragma once

#include <string>
#include <vector>

#include "study/sweep/cell.h"

namespace shardlm {

/// Stands in a planned command for the study's folder, so that the folder can be moved.
inline constexpr const char* kStudyFolder = "{study}";

/// "bench --shape gpt2 … --format jsonl". Error(usage) for a wire format that the algorithm cannot
/// have.
std::vector<std::string> program_words(const StudySpec& spec, const Cell& cell);

/// Where the calibration is, in the study's folder.
inline constexpr const char* kCalibrationFile = "calibration.json";
std::vector<std::string> calibrate_words(const StudySpec& spec, const Cell& cell);

/// What of a cell can be predicted: "decode", "prefill".
std::vector<std::string> predicted_phases(const Factors& factors);
/// `file`: the calibration, `from`: results of the same on one rank, both with their folders.
std::vector<std::string> predict_words(const std::string& model, const std::string& shape,
                                       const Factors& factors, const std::string& phase,
                                       const std::string& file, const std::string& from);

}  // namespace shardlm
