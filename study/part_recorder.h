// The records of a part of a run, put together when the part is over: for measurements that ask
// after each repetition where its time went.
#pragma once

#include <cstddef>
#include <optional>

#include "comm/communicator.h"
#include "study/clock_offsets.h"
#include "study/merged_calls.h"
#include "study/rank_records.h"

namespace shardlm {

/// One rank's. It adds to the log and never empties it, so it may work beside a RunObserver.
class PartRecorder {
 public:
  /// Collective. Gives the log memory for a part of so many calls and passes, if it has less.
  PartRecorder(Communicator& comm, RankIdentity who, std::size_t calls, std::size_t steps);

  /// False: this communicator records nothing. The same on all ranks.
  bool records() const { return log_ != nullptr; }

  /// Of a part. Collective: no rank comes late to the part by what it did before.
  void begin();
  /// Collective, when the part is over on this rank. At rank 0: what all ranks have recorded since
  /// begin(); elsewhere, and where nothing is recorded, nothing.
  std::optional<MergedRun> end();

 private:
  RankRecords take();

  Communicator& comm_;
  CallLog* log_;
  RankIdentity who_;
  std::vector<ClockOffset> first_offsets_;
  TickAnchor first_, begin_;
  LogMark mark_;
};

}  // namespace shardlm
