// Ranks as threads of one process, over the shared-memory collectives: what tests of several ranks
// run on, so that the sanitizers see all of them.
#pragma once

#include <cstddef>
#include <functional>

#include "backend/backend.h"
#include "comm/communicator.h"
#include "comm/host_communicator.h"

namespace shardlm {

struct ThreadRankOptions {
  std::size_t slot_bytes = std::size_t{64} << 10;  ///< multiple of 128; small: much chunking
  Deadlines deadlines{60, 60};
  int backend_threads = 1;     ///< of each rank's CPU back end
  std::string allreduce = {};  ///< rules (comm/algorithm_table.h) before the default ones
  Overlap overlap = Overlap::none;
  Precision precision = {};
};

/// Runs body(rank, communicator, backend) on `size` threads, each with a CPU back end of its own,
/// and rethrows the first exception that one of them threw, once all have ended. A rank that ends
/// early, by an exception or by returning, ends the waits of the others at once: to test a rank
/// that does not come, keep it in the body.
void run_ranks(int size, const std::function<void(int, Communicator&, Backend&)>& body,
               const ThreadRankOptions& options = {});

}  // namespace shardlm
