#include "comm/make_communicator.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/error.h"
#include "comm/emulated_network.h"
#include "comm/mpi_reducer.h"
#include "comm/self_communicator.h"
#include "comm/transport.h"

namespace shardlm {
namespace {

void check_transport(const MpiWorld& world, const std::string& name) {
  if (name != "auto" && name != "shm" && name != "mpi") {
    fail(ExitCode::usage,
         {.what = "communicator", .expected = "auto, shm or mpi", .found = "'" + name + "'"});
  }
  if (name == "shm" && !world.one_node()) {
    fail(ExitCode::usage, {.what = "communicator shm",
                           .expected = "all ranks on one node",
                           .found = fmt::format("{} of {} ranks on {}", world.node_size(),
                                                world.size(), world.host_name()),
                           .remedy = "use auto or mpi"});
  }
}

std::vector<int> ranks_of_node(const MpiWorld& world) {
  const int mine = world.nodes()[static_cast<std::size_t>(world.rank())];
  std::vector<int> ranks;
  for (int r = 0; r < world.size(); ++r) {
    if (world.nodes()[static_cast<std::size_t>(r)] == mine) ranks.push_back(r);
  }
  return ranks;
}

std::shared_ptr<ShmTeam> make_team(const MpiWorld& world, const Deadlines& deadlines) {
  ShmOptions options;
  options.deadlines = deadlines;
  options.oversubscribed = world.oversubscribed();
  options.job_ranks = ranks_of_node(world);
  return std::make_shared<ShmTeam>(world.node_rank(), world.share_memory(ShmTeam::segment_bytes()),
                                   options);
}

// What no rule of the user's is for.
AlgorithmTable defaults_for(const GroupShape& shape, WireFormat wire, bool messages_only) {
  GroupShape seen = shape;
  if (messages_only) seen = {shape.ranks, std::max(2, shape.ranks), 1};  // as if far apart
  std::vector<AllReduceRule> rules = default_table(seen).rules();
  for (AllReduceRule& rule : rules) {
    rule.choice.wire = wire;
    if (wire == WireFormat::int8 && rule.choice.algorithm == Algorithm::shm_oneshot)
      rule.choice.algorithm = Algorithm::shm_twoshot;
  }
  return AlgorithmTable(std::move(rules));
}

// The same, slower. The clock lives as long as what uses it.
void emulate(Transport& transport, const CommSettings& settings, bool oversubscribed) {
  if (!settings.emulation.delays()) return;
  const std::shared_ptr<NetworkClock> clock = make_network_clock(oversubscribed);
  transport.meetings = emulate_network(std::move(transport.meetings), settings.emulation,
                                       transport.rank, transport.size, *clock);
  transport.make_reducer = [real = std::move(transport.make_reducer), settings,
                            clock](const AllReduceChoice& choice) {
    const auto load = [settings, choice](std::size_t bytes) {
      return settings.load(choice, bytes);
    };
    return emulate_network(real(choice), settings.emulation, load, *clock);
  };
  transport.description += ", emulated network " + emulation_text(settings.emulation);
}

bool by_shared_memory_alone(const AlgorithmTable& table) {
  return std::all_of(table.rules().begin(), table.rules().end(), [](const AllReduceRule& rule) {
    return needs_one_node(rule.choice.algorithm);
  });
}

}  // namespace

GroupShape group_shape(const MpiWorld& world) {
  std::map<int, int> ranks;
  for (const int node : world.nodes()) ++ranks[node];
  int most = 0;
  for (const auto& [node, n] : ranks) most = std::max(most, n);
  return {world.size(), static_cast<int>(ranks.size()), most};
}

std::unique_ptr<Communicator> make_communicator(const MpiWorld& world, Backend& backend,
                                                const CommSettings& settings) {
  check_transport(world, settings.transport);
  if (world.size() == 1 && settings.transport == "auto")
    return std::make_unique<SelfCommunicator>(backend);
  const bool messages_only = settings.transport == "mpi";
  const AlgorithmTable table =
      settings.table.before(defaults_for(group_shape(world), settings.wire, messages_only));
  TransportParts parts;
  parts.rank = world.rank();
  parts.size = world.size();
  parts.node_of = world.nodes();
  parts.meet_by_messages = messages_only;
  if (!messages_only) parts.node = make_team(world, settings.deadlines);
  // In a job of one process MPI need not even start.
  const bool meet_by_memory = world.one_node() && !messages_only;
  if (!meet_by_memory || !by_shared_memory_alone(table))
    parts.messages = make_mpi_messages(world, settings.deadlines);
  parts.library = [&world, &backend, deadlines = settings.deadlines] {
    return make_mpi_reducer(world, backend, deadlines);
  };
  Transport transport = make_transport(std::move(parts), backend);
  emulate(transport, settings, world.oversubscribed());
  return std::make_unique<HostCommunicator>(std::move(transport), backend, table, settings.overlap);
}

}  // namespace shardlm
