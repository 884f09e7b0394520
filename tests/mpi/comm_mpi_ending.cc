// A job of which rank 1 fails in the way that the argument says, with a main() like the program's.
#include <csignal>
#include <cstdio>
#include <string>

#include "backend/cpu/cpu_backend.h"
#include "comm/agreement.h"
#include "comm/make_communicator.h"
#include "comm/mpi_world.h"

namespace shardlm {
namespace {

void say(const Error& error) { std::fprintf(stderr, "error: %s\n", error.what()); }

void run(const MpiWorld& world, const std::string& mode, const std::string& transport) {
  const std::unique_ptr<Backend> backend = make_cpu_backend(1);
  const auto comm =
      make_communicator(world, *backend, {.transport = transport, .deadlines = {60, 60}});
  comm->barrier({SiteKind::load, -1});
  const bool culprit = world.rank() == 1;
  std::optional<Error> mine;
  if (mode == "agreed" && culprit) mine = Error(ExitCode::model_files, "no such file");
  agree(*comm, mine);
  if (mode == "abort" && culprit) throw Error(ExitCode::resources, "rank 1 is out of memory");
  if (mode == "unwound" && culprit) throw Error(ExitCode::usage, "rank 1 has a bad flag");
  if (mode == "killed" && culprit) std::raise(SIGKILL);
  comm->barrier({SiteKind::step, -1});
}

int run_in_world(int argc, char** argv) {
  MpiWorld world(argc, argv);
  const std::string mode = argv[1];
  try {
    for (const char* transport : {"shm", "mpi"}) run(world, mode, transport);
  } catch (const AgreedFailure& failure) {
    if (!failure.quiet()) say(failure);
    return static_cast<int>(failure.code());
  } catch (const Error& error) {
    if (mode == "unwound") throw;  // out of the world's scope
    say(error);
    world.abort(error.code());
  }
  return 0;
}

}  // namespace
}  // namespace shardlm

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  try {
    return shardlm::run_in_world(argc, argv);
  } catch (const shardlm::Error& error) {
    shardlm::say(error);
    return static_cast<int>(error.code());
  }
}
