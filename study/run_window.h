// A part of a run, cut out by the clock.
#pragma once

#include <cstdint>

#include "study/merged_calls.h"

namespace shardlm {

/// What the ranks did from `begin_ns` to `end_ns` of rank 0's steady clock, as a run of its own:
/// make_comm_report() of it accounts for exactly this time. Calls that no rank is in at all are
/// left out; of one that reaches over a border each rank keeps the part inside, of which the wait
/// comes first. What is said of a whole call (skew, transfer, bytes) stays as it is.
MergedRun window_of(MergedRun run, std::int64_t begin_ns, std::int64_t end_ns);

}  // namespace shardlm
