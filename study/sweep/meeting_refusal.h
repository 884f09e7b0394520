// Combinations of levels that bench would refuse only when its ranks run.
#pragma once

#include <string>

#include "study/sweep/study_spec.h"

namespace shardlm {

/// Why the cell's ranks cannot meet so: shared memory over several nodes, or an algorithm of shared
/// memory beside `comm: mpi`. Empty: they can.
std::string meeting_refusal(const Factors& factors);

}  // namespace shardlm
