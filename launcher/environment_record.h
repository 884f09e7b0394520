// The environment record of comm_study 1.6: what a reader needs to believe or repeat a measurement.
#pragma once

#include <string>
#include <vector>

#include "launcher/job.h"
#include "launcher/machine_facts.h"
#include "study/machine_noise.h"

namespace shardlm {

/// Names and values, of all ranks where they may differ. Collective; at rank 0, elsewhere empty.
/// Nothing is ever left out: what cannot be found out is "unknown". Runs the canary.
Facts environment_record(const Job& job);

/// Another entry; of a name that is there already the values are joined, each once.
void add_fact(Facts& facts, const std::string& name, const std::string& value);
/// "unknown" if it has none.
std::string fact(const Facts& facts, const std::string& name);

/// How often each value stands in the list: "2 x Xeon 8592+, 4 x EPYC".
std::string counted_text(const std::vector<std::string>& values);

/// The ranks of each node, by its lowest rank.
std::vector<int> ranks_of_nodes(const MpiWorld& world);

/// True if some node has fewer cores for its ranks than their threads. Collective; on all ranks.
bool oversubscribed(const Job& job, int threads);

/// The rank whose core was the most disturbed, all ranks running the canary at the same time.
/// Collective; at rank 0.
Canary worst_canary(const Job& job);

}  // namespace shardlm
