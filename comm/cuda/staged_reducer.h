// The slow reference: device to host, the host communicator's all-reduce, host to device.
#pragma once

#include <memory>
#include <vector>

#include "backend/cuda/cuda_backend.h"
#include "comm/cuda/device_reducer.h"

namespace shardlm::cuda {

/// Works wherever the host communicator does. The host waits in each call, so that a pass with it
/// cannot be recorded; a missing rank is named by the host communicator.
class StagedReducer final : public DeviceReducer {
 public:
  /// `host` must take tensors of CPU back ends; both outlive the reducer.
  StagedReducer(Communicator& host, CudaBackend& backend);

  std::string name() const override { return "staged"; }
  bool recordable() const override { return false; }
  void all_reduce(const Call& call, const Tensor& addend, const ResidualUpdate& update) override;
  void set_log(CallLog* log) override { log_ = log; }

 private:
  Tensor on_host(const Tensor& addend);

  Communicator& host_;
  CudaBackend& backend_;
  std::unique_ptr<Backend> cpu_;
  std::vector<float> values_;
  CallLog* log_ = nullptr;
};

}  // namespace shardlm::cuda
