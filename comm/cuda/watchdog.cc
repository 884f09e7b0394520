#include "comm/cuda/watchdog.h"

#include <chrono>
#include <cstdlib>
#include <utility>

#include "base/error.h"
#include "base/log.h"

namespace shardlm::cuda {

Watchdog::Watchdog(double limit_s, std::string message)
    : thread_([this, limit_s, text = std::move(message)] { watch(limit_s, text); }) {}

Watchdog::~Watchdog() {
  {
    const std::lock_guard lock(mutex_);
    called_off_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void Watchdog::watch(double limit_s, const std::string& message) {
  std::unique_lock lock(mutex_);
  const std::chrono::duration<double> limit(limit_s);
  if (changed_.wait_for(lock, limit, [this] { return called_off_; })) return;
  log::error(message);
  std::_Exit(static_cast<int>(ExitCode::peer));
}

}  // namespace shardlm::cuda
