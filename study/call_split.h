// Waiting and transfer told apart.
#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "study/merged_calls.h"

namespace shardlm {

/// Since when rank `rank` could go on in the call: the last entry for all-reduces and barriers and
/// for the root of a gather, the root's entry for the others of a broadcast, its own entry for who
/// waits for nobody.
std::int64_t ready_at(const MergedCall& call, std::span<const RankPart> parts, std::size_t rank);

/// Whose entry that was; none if it waited for nobody else.
std::optional<std::size_t> released_by(const MergedCall& call, std::span<const RankPart> parts,
                                       std::size_t rank);

/// Chooses the run's SplitMethod and fills in waits, skews, transfers and violations.
void split_calls(MergedRun& run);

}  // namespace shardlm
