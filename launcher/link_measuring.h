// The links of a job, class by class: pairs of ranks that share memory, pairs of machines.
#pragma once

#include <vector>

#include "comm/emulation.h"
#include "launcher/job.h"
#include "study/link_class.h"

namespace shardlm {

struct LinkMeasuring {
  double seconds = 1;  ///< of each class, about
  double timeout_s = 60;
  Emulation emulation = {};  ///< if it delays, a class of its own
};

/// Collective; complete on rank 0: "shm" and "node" where two ranks share a machine, "network"
/// where there are several, "emulated" if asked for.
std::vector<LinkClass> measure_links(const Job& job, const LinkMeasuring& how);

/// Ranks by machine, machines in the order of their first ranks.
std::vector<std::vector<int>> ranks_by_machine(const std::vector<int>& node_of);
struct RankPair {
  int first = 0, second = 0;
  bool operator==(const RankPair&) const = default;
};
/// At most three pairs of ranks of one machine: neighbours, the ends, those of another machine.
std::vector<RankPair> pairs_inside(const std::vector<std::vector<int>>& machines);
/// At most three pairs of machines, by their first ranks.
std::vector<RankPair> pairs_between(const std::vector<std::vector<int>>& machines);

}  // namespace shardlm
