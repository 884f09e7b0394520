// What `shardlm tune` has measured, as a file, and the environment that it is true of.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "comm/algorithm_table.h"
#include "launcher/job.h"
#include "study/tune.h"

namespace shardlm {

/// What the speed of an all-reduce hangs on, of all ranks: name and value.
using AllReduceEnvironment = std::vector<std::pair<std::string, std::string>>;

/// Version of the way of measuring, MPI library, ranks of each node, CPUs, cores a rank. The same
/// on all ranks. Collective.
AllReduceEnvironment allreduce_environment(const Job& job);
/// 16 hexadecimal digits of it.
std::string environment_hash(const AllReduceEnvironment& environment);

/// $XDG_CACHE_HOME/shardlm/allreduce-HASH.json, or below $HOME/.cache; empty if neither is set.
std::filesystem::path default_allreduce_file(const std::string& hash);

/// Writes the file, its folder too. Error(ExitCode::resources) if that cannot be.
void write_allreduce_file(const std::filesystem::path& path,
                          const AllReduceEnvironment& environment,
                          std::span<const TuneSample> samples, const AlgorithmTable& table);

struct AllReduceFile {
  std::string hash;
  AlgorithmTable table;
};
/// Error(ExitCode::usage) if it cannot be read or is no such file.
AllReduceFile read_allreduce_file(const std::filesystem::path& path);

}  // namespace shardlm
