// A rank's time cut into what it did: every nanosecond of the run belongs to one segment.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "study/merged_calls.h"

namespace shardlm {

enum class SegmentKind : std::uint8_t {
  compute,  ///< inside a forward pass, between calls
  call,     ///< a collective, waiting included; of one in the background what holds up the rank
  other,    ///< between passes: on rank 0 scheduling, sampling and text
};

struct RankSegment {
  static constexpr std::size_t kNoCall = static_cast<std::size_t>(-1);
  SegmentKind kind = SegmentKind::other;
  std::int64_t begin = 0, end = 0;
  std::size_t call = kNoCall;  ///< this one, or the one that ends the segment
  std::uint64_t step = 0;      ///< of the pass that it serves: an `other` leads to the next one
  Phase phase = Phase::load;
  std::int64_t ns() const { return end - begin; }
};

/// From MergedRank::run_ns to last_ns, in order, without gaps or overlaps. Calls before are left
/// out. Where records were dropped, the time before the first one held is not in it.
std::vector<RankSegment> rank_segments(const MergedRun& run, std::size_t rank);

/// "embed", "attention[3]", "mlp[3]", "lm_head", "sample", "host", by what comes after it.
std::string segment_name(const MergedRun& run, std::size_t rank, const RankSegment& segment);

}  // namespace shardlm
