// The collectives of a run as all ranks saw them, on one clock. docs/communication.md defines what
// is computed here.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "study/clock_offsets.h"
#include "study/rank_records.h"

namespace shardlm {

/// How a call is split into waiting and transfer.
enum class SplitMethod : std::uint8_t {
  global_clock,    ///< by all ranks' entries on the common clock
  ranks_own,       ///< as each rank saw the last one enter
  min_over_ranks,  ///< the shortest call of any rank is taken for all transfer
};
std::string_view split_text(SplitMethod method);

/// One rank in one call; nanoseconds of rank 0's steady clock.
struct RankPart {
  std::int64_t entry = 0, exit = 0;
  std::int64_t blocked = -1;   ///< so much of it held up computing; -1: all
  std::int64_t own_wait = -1;  ///< as the rank itself saw it; -1: it cannot tell
  std::int64_t wait = 0;       ///< by the run's SplitMethod; 0 <= wait <= exit - entry
  std::uint64_t bytes = 0;
  std::int64_t wire_tx = -1;
  std::int64_t call() const { return exit - entry; }
  std::int64_t transfer() const { return call() - wait; }
  /// A call in the background holds the rank up at its end only.
  std::int64_t exposed() const { return blocked < 0 ? call() : std::min(blocked, call()); }
  std::int64_t hidden() const { return call() - exposed(); }
  std::int64_t exposed_wait() const { return std::max<std::int64_t>(0, wait - hidden()); }
};

struct MergedCall {
  Call call{};
  StepMark step{};  ///< the one that it is a part of
  std::int32_t root = -1;
  DType dtype = DType::u8;
  std::string_view algorithm;     ///< of the first rank's record
  std::int64_t skew = 0;          ///< last entry - first entry
  std::int64_t transfer = 0;      ///< the longest of any rank
  std::size_t last_to_enter = 0;  ///< rank
};

/// A forward pass on one rank.
struct RankStep {
  StepMark mark;
  std::int64_t begin = 0, end = 0;
};

struct MergedRank {
  RankIdentity who;
  std::int64_t run_ns = 0, last_ns = 0;  ///< the work after loading began; all ended
  std::int64_t wall_ns = 0;              ///< between these by the rank's own steady clock
  std::uint64_t dropped_calls = 0, dropped_steps = 0;
  std::uint64_t incomplete_calls = 0;  ///< that not all ranks have a record of
  std::vector<RankStep> steps;
};

struct MergedRun {
  std::vector<MergedRank> ranks;
  std::vector<MergedCall> calls;  ///< complete ones, as rank 0 entered them
  std::vector<RankPart> parts;    ///< [call][rank]
  std::vector<std::string> algorithms;
  SplitMethod split = SplitMethod::global_clock;
  std::string clock;                ///< "one machine, one time-stamp counter"
  std::int64_t clock_error_ns = 0;  ///< two ranks' times compare to this much
  std::uint64_t violations = 0;     ///< of causality, by more than the clock's error
  std::int64_t worst_violation_ns = 0;

  std::span<const RankPart> parts_of(std::size_t call) const {
    return std::span(parts).subspan(call * ranks.size(), ranks.size());
  }
};

/// `first` and `last`: the clocks when recording began and after all had ended, one for each rank.
/// Error(ExitCode::bug) if two ranks made different calls of one number.
MergedRun merge_records(std::span<const RankRecords> ranks, std::span<const ClockOffset> first,
                        std::span<const ClockOffset> last);

}  // namespace shardlm
