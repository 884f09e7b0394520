// A job of a study: started in a process group of its own, watched, and ended with all that it
// started.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace shardlm {

struct ProcessSpec {
  std::vector<std::string> command = {};        ///< looked up in PATH
  std::map<std::string, std::string> env = {};  ///< beside this process's own
  double timeout_s = 300;
  double grace_s = 5;  ///< between SIGTERM and SIGKILL
};

struct ProcessEnd {
  std::optional<int> exit_code = {};  ///< none: a signal ended it
  std::optional<int> signal = {};
  bool timed_out = false;
  bool stopped = false;  ///< since `stop` said so
  double wall_s = 0;
  std::string output = {};    ///< standard output, its first 256 MiB
  std::string messages = {};  ///< the last 2000 bytes of standard error
  bool ok() const { return exit_code == 0 && !timed_out && !stopped; }
};

/// Starts the command with no standard input and waits for its end. `tick` is called ten times a
/// second with the seconds since the start; once it returns true the job is ended: SIGTERM to its
/// group, SIGKILL after the grace, also to processes that left the group (they come to this
/// process, which is their subreaper). `started` learns the group's id. Error(usage) if the program
/// cannot be started.
ProcessEnd run_process(const ProcessSpec& spec, const std::function<bool(double)>& tick,
                       const std::function<void(int)>& started);

/// When a process was started, as the kernel counts; none if it is gone. With the id it names a
/// process for good.
std::optional<std::uint64_t> process_start_time(int pid);

}  // namespace shardlm
