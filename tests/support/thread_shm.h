// Shared memory between threads of one process: what a ShmTeam of threads stands on.
#pragma once

#include <cstddef>
#include <functional>

#include "comm/shm_team.h"

namespace shardlm {

/// Zeroed segments of `size` ranks, freed with the last copy.
ShmSegments thread_segments(int size, std::size_t slot_bytes);

/// Runs body(rank) on `size` threads and rethrows the first exception once all have ended.
void run_threads(int size, const std::function<void(int)>& body);

struct ThreadTeamOptions {
  std::size_t slot_bytes = std::size_t{4} << 10;  ///< multiple of 128
  Deadlines deadlines{60, 60};
  std::vector<int> job_ranks = {};
};

/// Options for a team of threads, which may be more than there are cores; no grace for the
/// departed.
ShmOptions thread_shm_options(int size, const ThreadTeamOptions& options = {});

/// Runs body(team) on `size` threads, each with its end of one team.
void run_team(int size, const std::function<void(ShmTeam&)>& body,
              const ThreadTeamOptions& options = {});

}  // namespace shardlm
