// Hosts as launchers want them named.
#pragma once

#include <string>
#include <vector>

#include "study/sweep/study_spec.h"

namespace shardlm {

/// "nodeA" or "nodeA:4". Error(usage) with `where`.
HostSlots parse_host(const std::string& text, const std::string& where);

/// An Open MPI hostfile: a line for each host, "nodeA" or "nodeA slots=4"; # begins a comment.
/// Error(usage) with file and line for another one.
std::vector<HostSlots> read_hostfile(const std::string& path, const std::string& where);

}  // namespace shardlm
