// The predictions of a study: made of its calibration and of what one rank took, and written before
// anything has been measured on several ranks.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "study/sweep/sweep_plan.h"

namespace shardlm {

/// Writes predictions.jsonl: for each cell of bench on several ranks what `shardlm predict` says,
/// with the cell's id, or why it says nothing. `launches`: the lines of cells.jsonl so far.
void write_predictions(const SweepPlan& plan, const std::filesystem::path& folder,
                       const std::vector<nlohmann::ordered_json>& launches);

}  // namespace shardlm
