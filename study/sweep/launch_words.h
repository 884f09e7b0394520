// How a cell's ranks are started: mpirun, srun, or a command of the study's own.
#pragma once

#include <string>
#include <vector>

#include "study/sweep/study_spec.h"

namespace shardlm {

/// What of this machine and its MPI library decides the words of mpirun.
struct LauncherFacts {
  bool open_mpi = true;
  bool root = false;
  int cores = 1;  ///< of this machine
};

/// Ranks of each node when `ranks` are dealt to `nodes`, the larger shares first.
std::vector<int> ranks_of_nodes(int ranks, int nodes);

/// The whole command that runs `program` (its path and options) on the cell's ranks.
///
/// mpirun: `-n P`, `--host a:2,b:2` where hosts are named (their first `nodes`); of Open MPI also
/// --oversubscribe on one machine, --bind-to none where a rank has more threads than one or the
/// ranks more threads than there are cores, and the permission to run as root. srun: --nodes,
/// --ntasks, --cpus-per-task. `options` come behind these. A command is cut into words as a shell
/// would (quotation marks, no variables), and {ranks}, {nodes}, {ranks_per_node}, {threads},
/// {hosts} are put into them; the word {program} becomes the program and its options, which else
/// stand at the end. Error(usage) for another word in braces and for an open quotation mark.
std::vector<std::string> launch_words(const LaunchSpec& launch, const LauncherFacts& facts,
                                      const Factors& factors,
                                      const std::vector<std::string>& program);

/// Why the cell cannot be started so; empty: it can.
std::string launch_refusal(const LaunchSpec& launch, const Factors& factors);

std::vector<std::string> split_words(const std::string& command);
/// As a shell reads it.
std::string shell_text(const std::vector<std::string>& words);

}  // namespace shardlm
