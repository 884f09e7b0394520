#include "comm/shm_transport.h"

#include "comm/host_communicator.h"
#include "comm/shm_meetings.h"
#include "comm/shm_oneshot.h"

namespace shardlm {

std::unique_ptr<Communicator> make_shm_communicator(int rank, ShmSegments segments,
                                                    Backend& backend, const ShmOptions& options) {
  const auto team = std::make_shared<ShmTeam>(rank, std::move(segments), options);
  Transport transport;
  transport.parts = team;
  transport.rank = rank;
  transport.size = team->size();
  transport.description = team->describe();
  transport.meetings = std::make_unique<ShmMeetings>(*team);
  transport.meetings_name = "shm";
  transport.make_reducer = [team, &backend](const AllReduceChoice&) {
    return std::make_unique<ShmOneShot>(*team, backend);
  };
  return std::make_unique<HostCommunicator>(
      std::move(transport), backend,
      AlgorithmTable({AllReduceRule{.choice = {Algorithm::shm_oneshot}}}));
}

}  // namespace shardlm
