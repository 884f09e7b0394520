// What an all-reduce asks of an emulated network (--emulate).
#pragma once

#include <cstddef>

#include "comm/algorithm_table.h"
#include "comm/emulation.h"

namespace shardlm {

/// Rounds and bytes of cost_terms(), bytes as the wire format makes them. Of two levels those of
/// the algorithm between nodes, with the whole message; of the MPI library's own, which does not
/// say what it does, those of recursive doubling.
NetworkLoad emulated_load(const AllReduceChoice& choice, const GroupShape& shape,
                          std::size_t bytes);

}  // namespace shardlm
