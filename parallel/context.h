// What a layer needs of its rank: passed, never global, so that several ranks can share a process.
#pragma once

#include "backend/backend.h"
#include "comm/communicator.h"
#include "parallel/partition.h"
#include "parallel/tap.h"

namespace shardlm {

/// How the ranks' parts of a row-parallel layer are summed.
enum class Reduction {
  ordered,  ///< floats in the order that the communicator's algorithm has: fastest
  exact,  ///< in fixed point (backend/fixed_point.h): the same bits at every number of ranks, with
          ///< every algorithm
};

struct Context {
  Backend& backend;
  Communicator& comm;
  Tap& tap;
  Reduction reduction = Reduction::ordered;
};

/// Columns that stay on one rank together as the inputs of the next matrix: since they share
/// scales, so the weights have the same values at every number of ranks; and since they are summed
/// together before fixed point.
inline std::int64_t column_block(const Precision& precision,
                                 Reduction reduction = Reduction::ordered) {
  if (reduction == Reduction::exact) return kFixedBlock;
  return is_quantised(precision.weights) ? kQuantBlock : 1;
}

/// Heads that stay on one rank together. For exact sums their columns hold whole blocks: 1 head,
/// but for heads of an odd width beside bf16 weights, or of no multiple of 32 beside int8 and int4.
std::int64_t head_block(const Precision& precision, Reduction reduction, std::int64_t head_dim);

/// Inputs of a row-parallel layer that are summed in float32 before fixed point, where `unit`
/// neighbours stay on one rank: its largest divisor of at most kFixedBlock that matmul_fixed takes.
std::int64_t sum_block(const Precision& precision, std::int64_t unit);

/// Units (heads, columns, ids) over the ranks of the group, and this rank's part of them.
struct Share {
  Share(const Context& context, std::int64_t n_units, std::int64_t block = 1)
      : all(n_units, context.comm.size(), block), mine(all.of(context.comm.rank())) {}
  Partition all;
  Range mine;
};

}  // namespace shardlm
