// Checks and measures the CUDA back end on a GPU machine: see scripts/gpu-check, which calls this.
#include <cstdio>
#include <exception>
#include <map>
#include <string>

#include "base/error.h"
#include "tools/gpu_check/commands.h"
#include "tools/gpu_check/ranks.h"

namespace shardlm::gpu_check {
namespace {

int run(int argc, char** argv) {
  const std::map<std::string, int (*)(Arguments&)> commands = {{"device", run_device},
                                                               {"kernels", run_kernels},
                                                               {"golden", run_golden},
                                                               {"die", run_die},
                                                               {"bench", run_bench}};
  Arguments arguments(argc, argv);
  const auto command = commands.find(arguments.command());
  if (command == commands.end()) {
    fail(ExitCode::usage, {.what = "command",
                           .expected = "device, kernels, golden, die or bench",
                           .found = "'" + arguments.command() + "'"});
  }
  return command->second(arguments);
}

}  // namespace
}  // namespace shardlm::gpu_check

int main(int argc, char** argv) {
  try {
    return shardlm::gpu_check::run(argc, argv);
  } catch (const shardlm::gpu_check::Skip& skip) {
    std::printf("%s\n", skip.because.c_str());
    return shardlm::gpu_check::kSkipped;
  } catch (const shardlm::Error& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return static_cast<int>(error.code());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return static_cast<int>(shardlm::ExitCode::bug);
  }
}
