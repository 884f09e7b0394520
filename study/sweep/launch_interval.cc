#include "study/sweep/launch_interval.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "study/statistics.h"

namespace shardlm {

LaunchInterval launch_interval(std::vector<double> medians) {
  check(!medians.empty(), "an interval of something");
  std::ranges::sort(medians);
  LaunchInterval interval;
  const std::size_t n = medians.size();
  interval.launches = static_cast<int>(n);
  interval.confidence = interval.launches >= kLaunchesForConfidence;
  std::size_t k = 1;  // from 1, as statisticians count
  if (interval.confidence) {
    double below = std::pow(0.5, n), term = below;  // P(X < k), P(X = k - 1)
    while (true) {
      term *= static_cast<double>(n - k + 1) / static_cast<double>(k);
      if (below + term > 0.025) break;
      below += term;
      ++k;
    }
  }
  interval.low = medians[k - 1];
  interval.high = medians[n - k];
  interval.middle = median(medians);
  return interval;
}

std::string interval_text(const LaunchInterval& x) {
  if (x.launches == 1) return fmt::format("{:.4g} (1 launch)", x.middle);
  return fmt::format("{:.4g} ({:.4g}..{:.4g}, {} launches, {})", x.middle, x.low, x.high,
                     x.launches, x.confidence ? "95 % CI" : "min..max");
}

}  // namespace shardlm
