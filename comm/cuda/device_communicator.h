// Ranks with a GPU each: sums travel between the devices, bytes between the hosts.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "backend/cuda/cuda_backend.h"
#include "comm/cuda/device_reducer.h"

namespace shardlm::cuda {

/// A reducer, and the largest message (bytes of float32, rows times columns) that it takes.
struct ReducePath {
  static constexpr std::int64_t kAnySize = INT64_MAX;
  std::unique_ptr<DeviceReducer> reducer;
  std::int64_t up_to_bytes = kAnySize;
};

/// All-reduces go to the first path that takes their size; everything else goes through the host
/// communicator. While the host waits for the device, the wait ends with Error(ExitCode::peer) when
/// a reducer has failed or after Deadlines::collective_s (of one wait; 0 or less: never): then the
/// reducers end their kernels, and whichever had a call in flight says who is missing. After that
/// the communicator is of no use. Destroyed in the ordinary way it meets the other ranks once more;
/// by an exception that passes through it does not. A GPU that does not become idle within
/// `stop_limit_s` of that ends the process (ExitCode::peer), since nothing could be freed.
class DeviceCommunicator final : public Communicator, private StreamWatch {
 public:
  DeviceCommunicator(std::unique_ptr<Communicator> host, CudaBackend& backend,
                     std::vector<ReducePath> paths, const Deadlines& deadlines,
                     std::string description, double stop_limit_s = 15);
  ~DeviceCommunicator() override;
  DeviceCommunicator(const DeviceCommunicator&) = delete;
  DeviceCommunicator& operator=(const DeviceCommunicator&) = delete;

  int rank() const override { return host_->rank(); }
  int size() const override { return host_->size(); }
  std::string describe() const override { return description_; }
  bool recordable() const override;
  Exactness exactness(bool /*fixed_point*/) const override {
    return Exactness::reordered;  // NCCL's order is its own
  }

  void all_reduce(Site site, const Tensor& addend, const ResidualUpdate& update) override;
  void broadcast(Site site, std::vector<std::byte>& message, int root) override {
    host_->broadcast(site, message, root);
  }
  void gather(Site site, std::span<const std::byte> mine, std::vector<std::vector<std::byte>>& all,
              int root) override {
    host_->gather(site, mine, all, root);
  }
  void barrier(Site site) override { host_->barrier(site); }
  void begin_step(const StepMark& step) override {
    log_.begin_step(step);
    host_->begin_step(step);
  }
  void end_step() override {
    log_.end_step();
    host_->end_step();
  }

  /// Keeps the times of the last `capacity` all-reduces from now on; 0: none. Passes recorded
  /// before are forgotten, since they were recorded without. Times are of the steady clock, onto
  /// which the device's is mapped by reading both at about the same time: good to some ten
  /// microseconds, so durations are exact, the places of calls of different ranks are not.
  void record_calls(std::size_t capacity);
  CallLog* log() override { return host_->log(); }
  void record_device_calls(std::size_t capacity) override { record_calls(capacity); }
  const CallLog* device_log() override { return log_.on() ? &call_log() : nullptr; }
  /// The calls so far. Waits for the device.
  const CallLog& call_log();

 private:
  void while_waiting(double waited_s) override;
  DeviceReducer& path_for(const Tensor& addend) const;
  void stop() noexcept;
  template <class Work>
  void unless_stopped(Work&& work) noexcept;

  std::unique_ptr<Communicator> host_;
  CudaBackend& backend_;
  std::vector<ReducePath> paths_;
  Deadlines deadlines_;
  std::string description_;
  double stop_limit_s_;
  CallLog log_;
  std::uint64_t calls_ = 0;
  bool stopped_ = false;
  int exceptions_at_start_;
};

}  // namespace shardlm::cuda
