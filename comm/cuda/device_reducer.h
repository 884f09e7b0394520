// One way to sum the ranks' addends on their devices. A DeviceCommunicator has one or two of them.
#pragma once

#include <string>

#include "backend/backend.h"
#include "comm/call.h"
#include "comm/call_record.h"
#include "comm/communicator.h"

namespace shardlm::cuda {

class DeviceReducer {
 public:
  virtual ~DeviceReducer() = default;

  virtual std::string name() const = 0;  ///< "ipc"
  /// True: all_reduce() enqueues and does not wait, so that it may be recorded and replayed.
  virtual bool recordable() const { return true; }

  /// As Communicator::all_reduce; the update has been checked.
  virtual void all_reduce(const Call& call, const Tensor& addend, const ResidualUpdate& update) = 0;

  // ---- a call that does not end ----
  /// Asked while the host waits for the device: something is known to have failed.
  virtual bool failed() { return false; }
  /// Ends this reducer's kernels in the stream; it is of no use afterwards. May be called twice.
  virtual void stop() noexcept {}
  /// After stop(), once the stream is idle: throws what went wrong if one of its calls did.
  /// `limit_s`: how long the host has waited.
  virtual void explain(double /*limit_s*/) {}

  /// The good end, called by all ranks together, with the stream idle and nothing recorded.
  virtual void close(Communicator& /*host*/) {}

  // ---- what calls cost ----
  /// Where records of calls go from now on; null: nowhere.
  virtual void set_log(CallLog* /*log*/) {}
  /// Adds what the log does not have yet. The stream is idle.
  virtual void collect() {}
};

}  // namespace shardlm::cuda
