// Where a measurement was made: what a reader needs to believe or repeat it.
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "launcher/job.h"

namespace shardlm {

/// The processor's name as the system gives it; "unknown" where it gives none. `root`: where /proc
/// is, for tests.
std::string cpu_name(const std::filesystem::path& root = "/");

/// Names and values of rank 0's machine and build, as JSON and the table have them.
std::vector<std::pair<std::string, std::string>> bench_environment(const Job& job);

}  // namespace shardlm
