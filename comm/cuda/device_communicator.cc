#include "comm/cuda/device_communicator.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <thread>
#include <utility>

#include "base/error.h"
#include "comm/cuda/watchdog.h"
#include "comm/residual_rows.h"

namespace shardlm::cuda {

DeviceCommunicator::DeviceCommunicator(std::unique_ptr<Communicator> host, CudaBackend& backend,
                                       std::vector<ReducePath> paths, const Deadlines& deadlines,
                                       std::string description, double stop_limit_s)
    : host_(std::move(host)),
      backend_(backend),
      paths_(std::move(paths)),
      deadlines_(deadlines),
      description_(std::move(description)),
      stop_limit_s_(stop_limit_s),
      exceptions_at_start_(std::uncaught_exceptions()) {
  check(!paths_.empty() && paths_.back().up_to_bytes == ReducePath::kAnySize,
        "the last path takes any size");
  backend_.stream().set_watch(this);
}

DeviceCommunicator::~DeviceCommunicator() {
  if (std::uncaught_exceptions() > exceptions_at_start_) stop();
  unless_stopped([this] { backend_.synchronize(); });
  // What a reducer frees must not be in use: by this rank's stream, by a recorded pass, or by
  // another rank.
  backend_.forget_passes();
  for (const ReducePath& path : paths_) {
    unless_stopped([&] { path.reducer->close(*host_); });
  }
  backend_.stream().set_watch(nullptr);
}

// An exception says that a rank is gone. It, or whoever met it first, tells the user so.
template <class Work>
void DeviceCommunicator::unless_stopped(Work&& work) noexcept {
  if (stopped_) return;
  try {
    work();
  } catch (const std::exception&) {
    stop();
  }
}

bool DeviceCommunicator::recordable() const {
  return std::all_of(paths_.begin(), paths_.end(),
                     [](const ReducePath& path) { return path.reducer->recordable(); });
}

DeviceReducer& DeviceCommunicator::path_for(const Tensor& addend) const {
  const std::int64_t bytes = addend.elements() * static_cast<std::int64_t>(sizeof(float));
  return *std::find_if(paths_.begin(), paths_.end(), [bytes](const ReducePath& path) {
            return bytes <= path.up_to_bytes;
          })->reducer;
}

void DeviceCommunicator::all_reduce(Site site, const Tensor& addend, const ResidualUpdate& update) {
  check_update(addend, update);
  check(addend.dtype() == DType::f32, "all_reduce: addends are float32");
  check(!stopped_, "all_reduce after the communicator has failed");
  path_for(addend).all_reduce({Op::all_reduce, site, ++calls_}, addend, update);
}

void DeviceCommunicator::while_waiting(double waited_s) {
  if (stopped_) return;  // the kernels have been told to end
  const bool failed = std::any_of(paths_.begin(), paths_.end(),
                                  [](const ReducePath& path) { return path.reducer->failed(); });
  const double limit_s = deadlines_.collective_s;
  if (!failed && (limit_s <= 0 || waited_s < limit_s)) return;
  stop();
  for (const ReducePath& path : paths_) path.reducer->explain(limit_s);
  fail(ExitCode::resources,
       {.what = fmt::format("rank {}'s GPU did not end its work within {:g} s", rank(), limit_s),
        .remedy = "no rank is missing now: if one came late, allow more time; else see whether the "
                  "GPU is ill"});
}

// Afterwards the stream is idle, or the process has ended.
void DeviceCommunicator::stop() noexcept {
  if (std::exchange(stopped_, true)) return;
  const Watchdog watchdog(
      stop_limit_s_,
      fmt::format("rank {}'s GPU could not be stopped within {:g} s after a rank had "
                  "failed, or had not come to a collective; the process ends",
                  rank(), stop_limit_s_));
  for (const ReducePath& path : paths_) path.reducer->stop();
  while (cudaStreamQuery(backend_.stream().get()) == cudaErrorNotReady) {
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
}

void DeviceCommunicator::record_calls(std::size_t capacity) {
  backend_.synchronize();
  backend_.forget_passes();
  log_ = CallLog(capacity, capacity);
  log_.clock = TickClock::steady;
  for (const ReducePath& path : paths_) path.reducer->set_log(capacity > 0 ? &log_ : nullptr);
}

const CallLog& DeviceCommunicator::call_log() {
  backend_.synchronize();
  for (const ReducePath& path : paths_) path.reducer->collect();
  return log_;
}

}  // namespace shardlm::cuda
