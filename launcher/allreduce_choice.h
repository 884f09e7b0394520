// The table of all-reduce algorithms that a job runs with: the user's rules, or what was measured,
// or the defaults.
#pragma once

#include <string>

#include "launcher/job.h"
#include "launcher/options.h"

#include "comm/algorithm_table.h"

namespace shardlm {

struct AllReduceDecision {
  AlgorithmTable table;  ///< before the defaults; may be empty
  std::string source;    ///< "as asked", "measured (FILE)", "defaults (…)"
};

/// Collective; rank 0 reads the file of `tune` and tells the others. Error(ExitCode::usage) if
/// `table` is asked for and no file fits.
AllReduceDecision decide_allreduce(const Job& job, const EngineOptions& options);

/// What of the options decides which calls a rank makes: " --allreduce ring --wire bf16".
std::string communication_text(const EngineOptions& options);
/// What the user asked for where sums are rounded on their way: "--wire int8".
std::string rounding_text(const EngineOptions& options);

}  // namespace shardlm
