// A deadline for what has none: the MPI library's own collectives (its start, its end, windows),
// which wait for ever for a rank that is stopped or cut off.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

namespace shardlm {

/// Reports and ends the process with ExitCode::peer, at once; the launcher of the job then ends the
/// other ranks.
void end_process_late(const std::string& text);

/// Watches what is done while it lives, from a thread of its own.
class BlockingWatch {
 public:
  /// `doing`: "MPI_Finalize". `limit_s`: 0 or less: for ever. `late` is called once on the thread
  /// of the watch if the time is up, with what to say.
  BlockingWatch(std::string doing, double limit_s,
                std::function<void(const std::string&)> late = end_process_late);
  ~BlockingWatch();
  BlockingWatch(const BlockingWatch&) = delete;
  BlockingWatch& operator=(const BlockingWatch&) = delete;

 private:
  void watch(std::chrono::steady_clock::time_point deadline) const;

  std::string doing_;
  double limit_s_;
  std::function<void(const std::string&)> late_;
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  bool over_ = false;
  std::thread thread_;
};

}  // namespace shardlm
