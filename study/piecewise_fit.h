// Straight pieces through the times of messages: alpha and beta by size.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "study/link_class.h"

namespace shardlm {

struct TimedMessage {
  std::uint64_t bytes = 0;
  double seconds = 0;
};

struct PiecewiseFit {
  std::vector<LinkSegment> segments;  ///< ascending; empty: there was nothing to fit
  double error = 0;                   ///< median of |fit / time - 1|
  double bic = 0;
};

inline constexpr int kMostSegments = 3;
inline constexpr std::size_t kLeastPoints = 4;  ///< of a segment, where there are several

/// Up to three pieces alpha + beta x bytes, neither negative. Each is the weighted least squares
/// fit with weights 1 / T^2, since a microsecond is much of a small message and nothing of a large
/// one; borders are found by trying all of the measured sizes; the number of pieces is that of the
/// least Bayesian information criterion, N ln(mean square of the relative errors) + k ln N with
/// k = 2 pieces + 2 borders: a border that is the best
/// of all places counts twice (modified BIC, Zhang and Siegmund 2007, doi
/// 10.1111/j.1541-0420.2006.00662.x). `times`: ascending sizes, each once, positive times.
PiecewiseFit fit_piecewise(std::span<const TimedMessage> times, int most = kMostSegments);

}  // namespace shardlm
