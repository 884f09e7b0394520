// Events around the calls that a reducer has put into the stream.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "backend/cuda/stream.h"
#include "comm/call.h"
#include "comm/call_record.h"

namespace shardlm::cuda {

/// Which calls have ended: the last ones, so that a call that does not end can be named.
class CallsInFlight {
 public:
  /// `call` has just been enqueued.
  void add(const Call& call, cudaStream_t stream);
  /// The oldest of the last kCalls that has not ended.
  std::optional<Call> first_unfinished() const;

 private:
  static constexpr std::size_t kCalls = 256;  ///< two passes of a model of 64 layers
  struct Entry {
    Call call;
    Event ended;
  };
  std::array<Entry, kCalls> entries_;
  std::size_t n_added_ = 0;
};

/// How long calls take on the device, by two events each. A call that is recorded in a pass is
/// timed at each replay; the last one counts. Of the recorded calls, and of the others since the
/// last collect(), the first kCalls are timed.
class CallTimer {
 public:
  explicit CallTimer(cudaStream_t stream);

  /// Between these two stands the call. `recording`: a pass is being recorded.
  void begin(const Call& call, std::uint64_t bytes, bool recording);
  void end();
  /// Adds what has ended since the last time; the stream is idle.
  void collect(CallLog& log);

 private:
  static constexpr std::size_t kCalls = 1024;
  struct Entry {
    Call call;
    std::uint64_t bytes = 0;
    bool recorded = false;
    Event begin, end;
  };
  void record(const Event& event, bool recording);

  cudaStream_t stream_;
  Event start_;  ///< happened at about start_ns_ of the host's clock
  std::int64_t start_ns_ = 0;
  std::vector<Entry> entries_;
  bool open_ = false;  ///< between begin() and end() stands a call that is timed
};

}  // namespace shardlm::cuda
