// What one step cost, while the run goes on.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "comm/call_record.h"

namespace shardlm {

/// Of one pass on one rank, from the end of the pass before to its own.
struct StepCost {
  double total_ms = 0;
  double compute_ms = 0;  ///< all that is in no call
  double wait_ms = 0;
  double transfer_ms = 0;  ///< with waiting, where `wait_known` is false
  bool wait_known = true;
  std::uint64_t bytes = 0;     ///< of the messages
  std::uint64_t messages = 0;  ///< calls
};

/// Of the last pass in the log, with all calls since the end of the pass before. `ns_per_tick`: of
/// the log's clock.
StepCost last_step_cost(const CallLog& log, double ns_per_tick);

/// The mean over ranks: "tok 17  6.41 ms = 5.02 comp + 0.31 wait + 1.08 xfer | 74 kB in 25 msgs";
/// "… + 1.39 comm | …" where a rank cannot tell waiting from transfer.
std::string live_line(std::uint64_t token, std::span<const StepCost> ranks);

}  // namespace shardlm
