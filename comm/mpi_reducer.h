// What the transports over MPI start from: messages between all ranks of a job, and the MPI
// library's own all-reduce.
#pragma once

#include <cstddef>
#include <memory>

#include "backend/backend.h"
#include "comm/all_reducer.h"
#include "comm/messages.h"

namespace shardlm {

class MpiWorld;

/// Messages between all ranks of the world, who make this together; the world must outlive it.
/// `piece_bytes`: larger messages are cut into several (MPI counts in int).
std::unique_ptr<Messages> make_mpi_messages(const MpiWorld& world, const Deadlines& deadlines,
                                            std::size_t piece_bytes = std::size_t{1} << 30);

/// The MPI library's all-reduce, by whatever algorithm it chooses, so in whatever order. (All ranks
/// get equal bits in every library that we know; the MPI standard only recommends it.) Made by all
/// ranks of the world together; world and back end must outlive it. Nothing of the library tells
/// who has not come when the time is up, nor how many bytes it sends: sent_bytes() counts those of
/// the addends.
std::unique_ptr<AllReducer> make_mpi_reducer(const MpiWorld& world, Backend& backend,
                                             const Deadlines& deadlines);

}  // namespace shardlm
