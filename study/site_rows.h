// The report's parts that are computed call by call.
#pragma once

#include <vector>

#include "study/comm_report.h"

namespace shardlm {

/// By phase, then by site in the order of a pass. `link` may be null.
std::vector<SiteRow> site_rows(const MergedRun& run, bool per_layer, const LinkCost* link);

/// Fitted to the median transfer of each algorithm and size.
std::optional<LinkCost> fit_link(const MergedRun& run);

std::vector<SizeBucket> size_histogram(const MergedRun& run);

/// Compares each whole pass with expected_traffic().
std::string check_traffic(const MergedRun& run, const ModelConfig& model, bool& as_expected);

}  // namespace shardlm
