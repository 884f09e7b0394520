// NCCL: any size, any number of nodes, one GPU a rank.
#pragma once

#include <nccl.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "backend/cuda/cuda_backend.h"
#include "comm/cuda/call_events.h"
#include "comm/cuda/device_reducer.h"
#include "comm/wait.h"

namespace shardlm::cuda {

/// "2.28.9" of ncclGetVersion()'s number.
std::string nccl_version_text(int version);

/// The sum of one call has the same bits on all ranks, but NCCL chooses the order of its terms by
/// size and topology: results differ from the other transports' by roundings.
///
/// The communicator is a non-blocking one: each call is polled until NCCL has enqueued it, so that
/// no call can hang the host. NCCL has no time limit of its own and does not tell who is missing;
/// the limits are Deadlines::load_s for the start and collective_s for a call. NCCL connects the
/// ranks when a message of some size is first sent: such a call must not be a recorded one, and it
/// is not, since a back end runs each pass once before it records it.
class NcclReducer final : public DeviceReducer {
 public:
  /// Called by all ranks together. NCCL before 2.18, or unequal versions over the ranks, are an
  /// AgreedFailure; ranks that do not come, or NCCL's own failures, Error(ExitCode::peer).
  NcclReducer(Communicator& host, CudaBackend& backend, const Deadlines& deadlines);
  ~NcclReducer() override;
  NcclReducer(const NcclReducer&) = delete;
  NcclReducer& operator=(const NcclReducer&) = delete;

  std::string name() const override;
  void all_reduce(const Call& call, const Tensor& addend, const ResidualUpdate& update) override;

  bool failed() override;
  void stop() noexcept override;
  void explain(double limit_s) override;
  void close(Communicator& host) override;

  void set_log(CallLog* log) override;
  void collect() override;

 private:
  void start(Communicator& host);
  void poll(const std::string& doing, double limit_s);
  [[noreturn]] void fail_nccl(const std::string& doing, ncclResult_t result);
  void sum(const Tensor& addend, const Tensor& to, const Call& call);
  void note_size(std::size_t count);
  void note(const Call& call);

  CudaBackend& backend_;
  Deadlines deadlines_;
  Waiter waiter_{false};
  int version_ = 0;
  ncclComm_t comm_ = nullptr;
  std::uint64_t sizes_sent_ = 0;  ///< bit b: a message of 2^(b-1) … 2^b - 1 floats was sent
  CallsInFlight in_flight_;
  std::optional<Call> first_recorded_, last_recorded_;
  std::string failure_;             ///< what NCCL itself says
  std::optional<Call> unfinished_;  ///< when it was stopped
  CallLog* log_ = nullptr;
  std::unique_ptr<CallTimer> timer_;
};

}  // namespace shardlm::cuda
