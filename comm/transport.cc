#include "comm/transport.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/error.h"
#include "comm/message_meetings.h"
#include "comm/message_reducer.h"
#include "comm/shm_meetings.h"
#include "comm/shm_oneshot.h"
#include "comm/shm_twoshot.h"
#include "comm/two_level_reducer.h"

namespace shardlm {
namespace {

bool one_node(const TransportParts& parts) {
  return parts.node != nullptr && parts.node->size() == parts.size;
}

[[noreturn]] void refuse(const AllReduceChoice& choice, const std::string& expected,
                         const std::string& found) {
  fail(ExitCode::usage, {.what = "all-reduce " + choice_text(choice),
                         .expected = expected,
                         .found = found,
                         .remedy = "choose another one, or auto"});
}

void need_shared_memory(const AllReduceChoice& choice, const TransportParts& parts) {
  if (parts.node == nullptr) refuse(choice, "ranks that share memory", "messages only");
  if (choice.algorithm != Algorithm::two_level && !one_node(parts)) {
    const std::set<int> nodes(parts.node_of.begin(), parts.node_of.end());
    refuse(choice, "all ranks on one node", fmt::format("{} nodes", nodes.size()));
  }
}

void need_messages(const AllReduceChoice& choice, const TransportParts& parts) {
  if (parts.messages == nullptr) refuse(choice, "ranks that send messages", "none can be sent");
}

std::unique_ptr<AllReducer> make_reducer(const AllReduceChoice& choice, const TransportParts& parts,
                                         Backend& backend) {
  switch (choice.algorithm) {
    case Algorithm::shm_oneshot:
      need_shared_memory(choice, parts);
      return std::make_unique<ShmOneShot>(*parts.node, backend, choice.wire);
    case Algorithm::shm_twoshot:
      need_shared_memory(choice, parts);
      return std::make_unique<ShmTwoShot>(*parts.node, backend, choice.wire);
    case Algorithm::two_level:
      need_shared_memory(choice, parts);
      need_messages(choice, parts);
      return std::make_unique<TwoLevelReducer>(*parts.node, *parts.messages, parts.node_of, backend,
                                               choice.between_nodes, choice.wire);
    case Algorithm::mpi:
      if (!parts.library) refuse(choice, "ranks that MPI has started", "ranks of one process");
      return parts.library();
    default:
      need_messages(choice, parts);
      return make_message_reducer(*parts.messages, backend, choice.algorithm, choice.wire);
  }
}

std::string describe(const TransportParts& parts, bool by_memory) {
  const std::string ranks = fmt::format("{} rank{}", parts.size, parts.size == 1 ? "" : "s");
  if (by_memory) return "shared memory, " + ranks;
  const std::set<int> nodes(parts.node_of.begin(), parts.node_of.end());
  return fmt::format("MPI messages, {} on {} node{}", ranks, nodes.size(),
                     nodes.size() == 1 ? "" : "s");
}

}  // namespace

Transport make_transport(TransportParts parts, Backend& backend) {
  const bool by_memory = one_node(parts) && !parts.meet_by_messages;
  check(by_memory || parts.messages != nullptr, "ranks that can meet");
  Transport transport;
  transport.rank = parts.rank;
  transport.size = parts.size;
  transport.description = describe(parts, by_memory);
  transport.meetings_name = by_memory ? "shm" : "messages";
  const auto shared = std::make_shared<const TransportParts>(std::move(parts));
  transport.parts = shared;
  if (by_memory) {
    transport.meetings = std::make_unique<ShmMeetings>(*shared->node);
  } else {
    transport.meetings = make_message_meetings(*shared->messages);
  }
  transport.make_reducer = [shared, &backend](const AllReduceChoice& choice) {
    return make_reducer(choice, *shared, backend);
  };
  return transport;
}

}  // namespace shardlm
