// Ctrl-C and SIGTERM, noted instead of obeyed at once, so that what runs can be ended in order.
#pragma once

#include <csignal>

namespace shardlm {

/// Catches SIGINT, SIGTERM and SIGHUP while it lives. One object in a process.
class StopSignal {
 public:
  StopSignal();
  ~StopSignal();
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;

  static int caught();  ///< the signal's number; 0: none came
  /// Ends the process as the signal that was caught does, which a shell understands.
  [[noreturn]] static void obey();

 private:
  struct sigaction before_[3] = {};
};

}  // namespace shardlm
