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

/// Units (heads, columns, ids) over the ranks of the group, and this rank's part of them.
struct Share {
  Share(const Context& context, std::int64_t n_units)
      : all(n_units, context.comm.size()), mine(all.of(context.comm.rank())) {}
  Partition all;
  Range mine;
};

}  // namespace shardlm
