// Collectives that last as long as over an emulated network (comm/emulation.h), for systems of any
// size that cannot make a real or a kernel's slow link. A layer between HostCommunicator and the
// transport, so that records, overlap and the choice of an algorithm work as over a real one.
//
// A rank adds the network's time to its own end of the real exchange. That end is not before the
// last rank came, so no rank has a sum earlier than last entry + network time; it is later by what
// the real exchange takes.
#pragma once

#include <functional>
#include <memory>

#include "comm/all_reducer.h"
#include "comm/communicator.h"
#include "comm/emulation.h"
#include "comm/meetings.h"

namespace shardlm {

/// The time of a rank's emulated network; tests have one of their own.
class NetworkClock {
 public:
  virtual ~NetworkClock() = default;
  virtual std::int64_t now_ns() = 0;
  virtual void wait_until_ns(std::int64_t time) = 0;
};
/// The machine's. It waits as one waits for other ranks (comm/wait.h): other work of this rank goes
/// on meanwhile.
std::unique_ptr<NetworkClock> make_network_clock(bool oversubscribed);

/// What an all-reduce of so many bytes (of the held elements) asks of the network: the algorithm's
/// rounds and bytes.
using AllReduceLoad = std::function<NetworkLoad(std::size_t bytes)>;

/// The clock outlives the result.
std::unique_ptr<AllReducer> emulate_network(std::unique_ptr<AllReducer> real,
                                            const Emulation& emulation, AllReduceLoad load,
                                            NetworkClock& clock);
/// Broadcast and gather as a star: the root's messages share its link. `rank`, `size`: of the
/// group.
std::unique_ptr<Meetings> emulate_network(std::unique_ptr<Meetings> real,
                                          const Emulation& emulation, int rank, int size,
                                          NetworkClock& clock);

/// Passes everything on to `to`, but holds the slow rank up before it enters an all-reduce: to the
/// records that is computing. `to` and the clock outlive it.
std::unique_ptr<Communicator> emulate_slow_rank(Communicator& to, const Emulation& emulation,
                                                NetworkClock& clock);

}  // namespace shardlm
