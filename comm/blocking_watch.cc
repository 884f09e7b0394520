#include "comm/blocking_watch.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "comm/call.h"

namespace shardlm {

void end_process_late(const std::string& text) {
  log::error(text);
  std::_Exit(static_cast<int>(ExitCode::peer));  // exit() would run into the same wait
}

BlockingWatch::BlockingWatch(std::string doing, double limit_s,
                             std::function<void(const std::string&)> late)
    : doing_(std::move(doing)), limit_s_(limit_s), late_(std::move(late)) {
  if (limit_s <= 0) return;
  const auto deadline = std::chrono::steady_clock::now() +
                        std::chrono::duration_cast<std::chrono::steady_clock::duration>(
                            std::chrono::duration<double>(std::min(limit_s, 1e9)));
  thread_ = std::thread([this, deadline] { watch(deadline); });
}

BlockingWatch::~BlockingWatch() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void BlockingWatch::watch(std::chrono::steady_clock::time_point deadline) const {
  std::unique_lock lock(mutex_);
  if (changed_.wait_until(lock, deadline, [this] { return over_; })) return;
  late_(describe(
      {.what = fmt::format("{} has not ended {}", doing_, waited_text(limit_s_)),
       .remedy = "the MPI library does not tell which rank it waits for: see on the hosts which is "
                 "dead, stopped or cut off"}));
}

}  // namespace shardlm
