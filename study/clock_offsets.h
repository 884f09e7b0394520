// How far the ranks' steady clocks stand apart.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "comm/communicator.h"

namespace shardlm {

/// One rank's clock minus rank 0's, at some time of rank 0's clock.
struct ClockOffset {
  std::int64_t at_ns = 0;
  std::int64_t offset_ns = 0;
  std::int64_t error_ns =
      0;  ///< the offset is right to this much either way; 0: it is the same clock
};

/// Of one exchange: rank 0 asked at `sent_ns` and had the answer at `back_ns`, between which the
/// other rank's clock said `there_ns`.
ClockOffset offset_of(std::int64_t sent_ns, std::int64_t there_ns, std::int64_t back_ns);

/// Collective. At rank 0: one for each rank; elsewhere empty. Ranks with rank 0's `machine` have
/// its clock and need no exchange. With the others: 100 exchanges, of which the one with the
/// shortest round trip counts (the rule of NTP).
std::vector<ClockOffset> measure_clock_offsets(Communicator& comm, const std::string& machine);

/// Linear between two measurements and beyond them.
class ClockDrift {
 public:
  ClockDrift() = default;  ///< rank 0's own clock
  ClockDrift(const ClockOffset& first, const ClockOffset& last);
  /// A time of the rank's clock as rank 0's clock has it.
  std::int64_t to_rank_0(std::int64_t ns) const;
  /// The larger one of the two measurements.
  std::int64_t error_ns() const { return error_ns_; }

 private:
  ClockOffset first_;
  double drift_ = 0;  ///< nanoseconds of offset gained in a nanosecond
  std::int64_t error_ns_ = 0;
};

}  // namespace shardlm
