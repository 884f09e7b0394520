// The communicator of a job, by names.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "comm/algorithm_table.h"
#include "comm/emulation.h"
#include "comm/host_communicator.h"
#include "comm/mpi_world.h"

namespace shardlm {

GroupShape group_shape(const MpiWorld& world);

struct CommSettings {
  /// auto: none for one rank, shared memory if all ranks share a node, else MPI messages. shm, mpi:
  /// that one. It decides how bytes travel that are no sums, and where sums go by default.
  std::string transport = "auto";
  Deadlines deadlines = {};
  AlgorithmTable table = {};          ///< before the default one
  WireFormat wire = WireFormat::f32;  ///< of the default one
  Overlap overlap = Overlap::none;
  /// As over this network, if it delays; `load` says what an all-reduce asks of it.
  Emulation emulation = {};
  std::function<NetworkLoad(const AllReduceChoice&, std::size_t bytes)> load = {};
};

/// Another transport, shm across nodes, or an algorithm that cannot work here is an
/// Error(ExitCode::usage) with the reason. Called by all ranks together and with the same settings;
/// world and backend must outlive the result.
std::unique_ptr<Communicator> make_communicator(const MpiWorld& world, Backend& backend,
                                                const CommSettings& settings);

}  // namespace shardlm
