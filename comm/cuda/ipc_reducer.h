// Sums through memory that the ranks' GPUs map from each other: the quick way inside a node, and
// the only one for ranks that share a GPU.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "backend/cuda/cuda_backend.h"
#include "backend/cuda/memory.h"
#include "comm/cuda/device_reducer.h"
#include "comm/cuda/ipc_all_reduce.h"
#include "comm/cuda/ipc_memory.h"

namespace shardlm::cuda {

/// See ipc_all_reduce.h. Sums are in rank order, in one kernel with the update. The numbers of its
/// calls, in messages and records, count this rank's all-reduces on the device, replayed ones
/// included; a record tells the wait for the others from the transfer.
class IpcReducer final : public DeviceReducer {
 public:
  static constexpr std::size_t kSlotBytes = std::size_t{1} << 20;
  static constexpr int kBlocks = 16;

  /// `n_blocks`: thread blocks of a launch, the same on all ranks.
  IpcReducer(int rank, IpcMemory memory, CudaBackend& backend, int n_blocks = kBlocks);

  std::string name() const override { return "ipc"; }
  /// Messages above a slot go in chunks of whole rows; a row above a slot is summed by columns
  /// first.
  void all_reduce(const Call& call, const Tensor& addend, const ResidualUpdate& update) override;

  bool failed() override;
  void stop() noexcept override;
  void explain(double limit_s) override;
  void close(Communicator& host) override;

  void set_log(CallLog* log) override { log_ = log; }
  void collect() override;

 private:
  void sum_wide_rows(IpcLaunch launch, const Tensor& addend, const ResidualUpdate& update);
  std::int64_t gpu_clock_lead_ns();

  IpcMemory memory_;
  CudaBackend& backend_;
  PinnedBlock report_memory_;
  IpcReport* report_;
  IpcRank rank_{};
  CallLog* log_ = nullptr;
  std::uint32_t n_collected_ = 0;
};

}  // namespace shardlm::cuda
