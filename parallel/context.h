// What a layer needs of its rank: passed, never global, so that several ranks can share a process.
#pragma once

#include "backend/backend.h"
#include "comm/communicator.h"
#include "parallel/partition.h"
#include "parallel/tap.h"

namespace shardlm {

struct Context {
  Backend& backend;
  Communicator& comm;
  Tap& tap;
};

/// Columns that stay on one rank together, since they share scales as the inputs of the next
/// matrix: so the weights have the same values at every number of ranks.
inline std::int64_t column_block(const Precision& precision) {
  return is_quantised(precision.weights) ? kQuantBlock : 1;
}

/// Units (heads, columns, ids) over the ranks of the group, and this rank's part of them.
struct Share {
  Share(const Context& context, std::int64_t n_units, std::int64_t block = 1)
      : all(n_units, context.comm.size(), block), mine(all.of(context.comm.rank())) {}
  Partition all;
  Range mine;
};

}  // namespace shardlm
