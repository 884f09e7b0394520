// What several launches of one cell say together.
#pragma once

#include <string>
#include <vector>

namespace shardlm {

/// From this many launches on an interval of 95 % confidence exists; below, all that can be said is
/// the least and the largest.
inline constexpr int kLaunchesForConfidence = 6;

struct LaunchInterval {
  double middle = 0, low = 0, high = 0;
  int launches = 0;
  bool confidence = false;  ///< low and high are the 95 % confidence interval, else min and max
};

/// Of the launches' medians, at least one. The confidence interval of their median is that of the
/// order statistics k and n + 1 - k, k as large as P(Binomial(n, 1/2) < k) <= 2.5 % allows: it
/// assumes no distribution (n = 6: the least and the largest, 96.9 %).
LaunchInterval launch_interval(std::vector<double> medians);

/// "103.2 (101.1..104.9, 6 launches, 95 % CI)"; "… min..max".
std::string interval_text(const LaunchInterval& interval);

}  // namespace shardlm
