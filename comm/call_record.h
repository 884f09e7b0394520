// What a collective cost: one record a call, the same for every transport.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "comm/call.h"

namespace shardlm {

/// One call of a collective on one rank. Times are nanoseconds. `start_ns` is of the host's steady
/// clock; a device's clock is mapped onto it by reading both at about the same time, which is good
/// to some ten microseconds: durations are exact, the places of calls of different ranks are not.
struct CallRecord {
  Call call;
  std::uint64_t bytes = 0;        ///< of this rank's message
  std::int64_t start_ns = 0;      ///< the rank entered the call
  std::int64_t wait_ns = -1;      ///< until all ranks had entered it; -1: the transport cannot tell
  std::int64_t transfer_ns = -1;  ///< from then (wait unknown: from the start) until the end
};

/// The last calls, in memory of fixed size. Off until it has a capacity.
class CallLog {
 public:
  CallLog() = default;
  explicit CallLog(std::size_t capacity) : records_(capacity) {}

  bool on() const { return !records_.empty(); }
  /// Records held; never more than the capacity.
  std::size_t size() const { return n_added_ < records_.size() ? n_added_ : records_.size(); }
  /// Records that newer ones have pushed out.
  std::size_t dropped() const { return n_added_ - size(); }
  /// The i-th oldest of those held.
  const CallRecord& operator[](std::size_t i) const {
    return records_[(n_added_ - size() + i) % records_.size()];
  }

  /// Without effect while off.
  void add(const CallRecord& record) {
    if (on()) records_[n_added_++ % records_.size()] = record;
  }
  void clear() { n_added_ = 0; }

 private:
  std::vector<CallRecord> records_;
  std::size_t n_added_ = 0;
};

}  // namespace shardlm
