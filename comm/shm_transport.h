// Ranks that have shared memory and nothing else: processes of tests and tools that no launcher
// started.
#pragma once

#include <memory>

#include "comm/communicator.h"
#include "comm/shm_team.h"

namespace shardlm {

/// Sums by shm-oneshot. The back end outlives the result.
std::unique_ptr<Communicator> make_shm_communicator(int rank, ShmSegments segments,
                                                    Backend& backend, const ShmOptions& options);

}  // namespace shardlm
