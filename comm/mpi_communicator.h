// Collectives over MPI point-to-point messages: between any hosts. None of MPI's own collectives
// is used: they cannot time out, they sum in an order of their own, and they choose their
// algorithm for other sizes than ours.
#pragma once

#include <cstddef>
#include <memory>

#include "comm/communicator.h"

namespace shardlm {

class MpiWorld;

struct MpiOptions {
  Deadlines deadlines;
  /// An all_reduce above this, on more than 2 ranks, is two-shot: each rank sums a slice of the
  /// message, then the slices are exchanged: 2 rounds, but 2 (P-1)/P instead of P-1 times the
  /// bytes sent. At or below, each rank sends all to all: 1 round. Always summed in rank order, so
  /// the bits do not depend on it.
  std::size_t two_shot_above_bytes = std::size_t{32} << 10;
  /// Larger messages are reduced in chunks of whole rows, which bounds the buffers.
  std::size_t chunk_bytes = std::size_t{4} << 20;
  /// Larger MPI messages are cut into several (MPI counts in int). At least 4000.
  std::size_t piece_bytes = std::size_t{1} << 30;
};

/// Every message goes straight from the rank that has it to the rank that wants it, also in
/// broadcast and barrier, so that a rank that waits knows which rank is missing. Made by all ranks
/// of the world together; world and backend must outlive it.
std::unique_ptr<Communicator> make_mpi_communicator(const MpiWorld& world, Backend& backend,
                                                    const MpiOptions& options);

}  // namespace shardlm
