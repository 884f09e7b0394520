#include "study/sweep/meeting_refusal.h"

#include <fmt/format.h>

#include "comm/algorithm_table.h"

namespace shardlm {

std::string meeting_refusal(const Factors& factors) {
  if (ranks_of(factors) == 1) return "";
  const int nodes = nodes_of(factors);
  const std::string comm = level_of(factors, "comm", "auto");
  if (comm == "shm" && nodes > 1) return fmt::format("comm shm is for one node, not {}", nodes);
  const std::string rules = level_of(factors, "allreduce", "auto");
  if (rules == "auto" || rules == "table") return "";
  const AlgorithmTable table = parse_algorithm_table(rules);
  for (const AllReduceRule& rule : table.rules()) {
    const Algorithm algorithm = rule.choice.algorithm;
    if (nodes > 1 && needs_one_node(algorithm)) {
      return fmt::format("{} is for one node, not {}", name(algorithm), nodes);
    }
    if (comm == "mpi" && (needs_one_node(algorithm) || algorithm == Algorithm::two_level)) {
      return fmt::format("{} needs shared memory, which comm mpi does without", name(algorithm));
    }
  }
  return "";
}

}  // namespace shardlm
