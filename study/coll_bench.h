// Collectives timed one by one: what `shardlm bench coll` measures. docs/cli.md says how.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comm/algorithm_table.h"
#include "study/call_timing.h"
#include "study/measuring.h"

namespace shardlm {

/// One way to make an operation.
struct CollCandidate {
  std::string name;                       ///< "shm-oneshot", "mpi"; of others "messages"
  std::optional<AllReduceChoice> choice;  ///< of an all-reduce
  std::unique_ptr<Communicator> comm;
};

struct CollPlan {
  Op op = Op::all_reduce;
  bool isolated = true;          ///< else back-to-back: bursts of kBurst calls
  std::function<void()> before;  ///< each call (or burst): makes the caches cold; may be empty
  StopRule rule{200, 20000, 5, 0.02};
  static constexpr int kBurst = 20;
};

/// One operation, algorithm and size. Times are microseconds of the slowest rank.
struct CollSample {
  Op op = Op::all_reduce;
  std::string algorithm;
  std::optional<AllReduceChoice> choice;
  std::size_t bytes = 0;  ///< of a rank's message
  bool isolated = true;
  std::vector<double> us;  ///< of each call; of bursts their means
  std::uint64_t calls = 0;
  Stopped stopped = Stopped::most;
  std::uint64_t n_wrong = 0;      ///< elements, of all ranks
  std::optional<double> wire_tx;  ///< bytes that a rank sends in a call, mean over the ranks
  std::optional<double> model_us;
};

/// Tries every candidate at this size, call by call in an order that is drawn anew each time, until
/// every one's median is known well enough. Collective; the samples are rank 0's.
std::vector<CollSample> measure_collective(Communicator& control, Backend& backend,
                                           const std::vector<CollCandidate>& candidates,
                                           const CollPlan& plan, std::size_t bytes);

/// What moves in a call, as nccl-tests counts: bytes for algbw, and the factor of busbw.
struct CollVolume {
  double bytes = 0, bus_factor = 1;
};
CollVolume volume_of(Op op, int ranks, std::size_t bytes);

/// What a call should take, seconds; none: not known.
using CollModel = std::function<std::optional<double>(const AllReduceChoice&, std::size_t bytes)>;
/// Fits a link for the algorithms over shared memory and one for those by messages to the medians
/// of these samples, and so says less than a model that was made before.
CollModel fitted_model(const std::vector<CollSample>& samples, int ranks);

}  // namespace shardlm
