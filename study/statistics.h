// What is said of many times.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <optional>
#include <vector>

namespace shardlm {

/// The q-quantile, 0 < q < 1, linear between neighbours (as numpy's default). 0 of nothing.
inline double quantile(std::vector<double>& values, double q) {
  if (values.empty()) return 0;
  const double at = q * static_cast<double>(values.size() - 1);
  const auto below = static_cast<std::size_t>(at);
  const auto nth = values.begin() + static_cast<std::ptrdiff_t>(below);
  std::nth_element(values.begin(), nth, values.end());
  const double low = *nth;
  if (below + 1 == values.size()) return low;
  const double high = *std::min_element(nth + 1, values.end());
  return low + (at - static_cast<double>(below)) * (high - low);
}

inline double median(std::vector<double>& values) { return quantile(values, 0.5); }

/// The same where there are enough samples to say it, 20 / (1 - q).
inline std::optional<double> supported_quantile(std::vector<double>& values, double q) {
  if (static_cast<double>(values.size()) * (1 - q) < 20 - 1e-9) return std::nullopt;
  return quantile(values, q);
}

}  // namespace shardlm
