#include "comm/make_communicator.h"

#include <fmt/format.h>

#include "comm/mpi_communicator.h"
#include "comm/self_communicator.h"
#include "comm/shm_communicator.h"

namespace shardlm {
namespace {

std::unique_ptr<Communicator> make_shm(const MpiWorld& world, Backend& backend,
                                       const Deadlines& deadlines) {
  if (!world.one_node()) {
    fail(ExitCode::usage, {.what = "communicator shm",
                           .expected = "all ranks on one node",
                           .found = fmt::format("{} of {} ranks on {}", world.node_size(),
                                                world.size(), world.host_name()),
                           .remedy = "use auto or mpi"});
  }
  ShmOptions options;
  options.deadlines = deadlines;
  options.oversubscribed = world.oversubscribed();
  return std::make_unique<ShmCommunicator>(
      world.node_rank(), world.share_memory(ShmCommunicator::segment_bytes()), backend, options);
}

std::unique_ptr<Communicator> make_mpi(const MpiWorld& world, Backend& backend,
                                       const Deadlines& deadlines) {
  MpiOptions options;
  options.deadlines = deadlines;
  return make_mpi_communicator(world, backend, options);
}

}  // namespace

std::unique_ptr<Communicator> make_communicator(const MpiWorld& world, Backend& backend,
                                                const std::string& name,
                                                const Deadlines& deadlines) {
  if (name == "shm") return make_shm(world, backend, deadlines);
  if (name == "mpi") return make_mpi(world, backend, deadlines);
  if (name != "auto") {
    fail(ExitCode::usage,
         {.what = "communicator", .expected = "auto, shm or mpi", .found = "'" + name + "'"});
  }
  if (world.size() == 1) return std::make_unique<SelfCommunicator>(backend);
  return world.one_node() ? make_shm(world, backend, deadlines)
                          : make_mpi(world, backend, deadlines);
}

}  // namespace shardlm
