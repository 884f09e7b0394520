// The transport of a job, by name.
#pragma once

#include <memory>
#include <string>

#include "comm/communicator.h"
#include "comm/mpi_world.h"

namespace shardlm {

/// "auto": none for one rank, shared memory if all ranks share a node, else MPI messages. "shm",
/// "mpi": that one. Another name, or shm across nodes, is an Error(ExitCode::usage) with the
/// choices. Called by all ranks together and with the same name; world and backend must outlive
/// the result.
std::unique_ptr<Communicator> make_communicator(const MpiWorld& world, Backend& backend,
                                                const std::string& name,
                                                const Deadlines& deadlines);

}  // namespace shardlm
