// How many threads a rank should use on the cores that it may use.
#pragma once

#include <string>

#include "comm/mpi_world.h"

namespace shardlm {

/// The cores divided among the ranks that share them, at least one.
int auto_threads(const CoreShare& share);

std::string core_text(const CoreShare& share);  ///< "2 cores shared by 2 ranks"
/// "1 thread a rank (2 cores shared by 2 ranks)"
std::string threads_text(const CoreShare& share, int threads);

/// What to say, on one rank of those that share the cores, if they ask for more threads than there
/// are cores; empty if all is well.
std::string core_warning(const CoreShare& share, int threads);

}  // namespace shardlm
