// A run as one timeline for a trace viewer (Perfetto, chrome://tracing): the JSON trace event
// format, with the argument names of PyTorch's profiler so that its tools read it too.
#pragma once

#include <ostream>
#include <string>

#include "study/merged_calls.h"

namespace shardlm {

/// A process for each rank, with a thread that computes and one that communicates. A call's waiting
/// is an event inside it. From the entry of the last rank an arrow goes to where each other rank
/// leaves the call. Written event by event: the memory that it takes does not grow with the run.
void write_trace(const MergedRun& run, const std::string& title, std::ostream& to);

}  // namespace shardlm
