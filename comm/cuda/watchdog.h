// For work that may hang and that nothing can interrupt.
#pragma once

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace shardlm::cuda {

/// Ends the process with ExitCode::peer, after a message on standard error, unless it is destroyed
/// within `limit_s`. A GPU whose work does not end would otherwise hold the process, and with it
/// the job, in the first call that frees memory.
class Watchdog {
 public:
  Watchdog(double limit_s, std::string message);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

 private:
  void watch(double limit_s, const std::string& message);

  std::mutex mutex_;
  std::condition_variable changed_;
  bool called_off_ = false;
  std::thread thread_;
};

}  // namespace shardlm::cuda
