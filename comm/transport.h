// What a group of ranks has to meet by, put together.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "comm/host_communicator.h"
#include "comm/messages.h"
#include "comm/shm_team.h"

namespace shardlm {

/// Any may be missing: then what needs it is refused.
struct TransportParts {
  int rank = 0, size = 1;
  std::shared_ptr<ShmTeam> node;       ///< the ranks of this rank's node
  std::shared_ptr<Messages> messages;  ///< all ranks
  std::vector<int> node_of;            ///< of every rank: equal numbers share memory
  std::function<std::unique_ptr<AllReducer>()> library;  ///< the MPI library's own all-reduce
  bool meet_by_messages = false;                         ///< also where shared memory would do
};

/// Meetings by shared memory if all ranks are of one node, else by messages; reducers of all that
/// is there. The back end outlives the result.
Transport make_transport(TransportParts parts, Backend& backend);

}  // namespace shardlm
