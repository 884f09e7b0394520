// `shardlm version`: what this binary is and what it runs on.
#pragma once

#include <iosfwd>
#include <string>
#include <utility>
#include <vector>

#include "launcher/options.h"

namespace shardlm {

/// Name and value pairs: version, commit ("unknown" outside a checkout), compiler, mpi, simd,
/// build_type, cxx_flags, sanitize, coverage, tests.
std::vector<std::pair<std::string, std::string>> version_facts();

/// Writes them a line each, or with --json as one object of texts. Needs no MPI start.
void run_version(const VersionOptions& options, std::ostream& out);

}  // namespace shardlm
