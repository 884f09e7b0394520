// What of a machine decides how fast it is, as its files say.
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace shardlm {

using Facts = std::vector<std::pair<std::string, std::string>>;

/// cpu, numa_nodes, governor, smt, kernel, virtual_machine, container, huge_pages. What cannot be
/// found out is "unknown", and nothing is left out. `root`: where /proc and /sys are, for tests.
Facts machine_facts(const std::filesystem::path& root = "/");

/// The variables of MPI, NCCL, UCX, OpenMP and our own that change what a run does: "A=1 B=2", in
/// the order of their names; "none". Left out is what a launcher tells each process about itself
/// (ranks, addresses, folders). `environment`: NAME=VALUE, ended by a null.
std::string relevant_variables(const char* const* environment);
std::string relevant_variables();  ///< of this process

}  // namespace shardlm
