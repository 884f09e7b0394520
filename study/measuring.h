// How often to measure, and what may be said of the samples (comm_study 1.4).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace shardlm {

/// Of the way in which results are made: those of two versions are not comparable.
inline constexpr int kMethodVersion = 2;

/// A 95 % confidence interval of the median of sorted values: the order statistics n/2 ± 0.98
/// sqrt(n). Below kLeastForInterval values it is the ends, and holds the median less often than
/// that.
std::pair<double, double> median_interval(std::span<const double> sorted);
inline constexpr std::size_t kLeastForInterval = 6;

/// What values say of their median.
struct MedianEstimate {
  double median = 0, least = 0, most = 0;
  std::optional<double> low, high;  ///< the 95 % interval, of kLeastForInterval values or more
  /// high - low as a share of the median; none where there is no interval.
  std::optional<double> relative_width() const;
};
/// Error(bug) of no values.
MedianEstimate estimate_median(std::vector<double> values);

enum class Stopped : std::uint8_t { precise, most, time };
std::string_view name(Stopped stopped);  ///< "precise"

/// When to stop: the interval is narrow enough, there are as many values as are allowed, or it has
/// taken long enough; and never below the least number.
struct StopRule {
  std::int64_t least = 5, most = 200;
  double max_seconds = 10;  ///< of measuring, between values too
  double width = 0.02;      ///< of the interval, as a share of the median

  /// None: go on.
  std::optional<Stopped> stop(const std::vector<double>& values, double elapsed_s) const;
};

/// When measuring may begin: after `least` values and when the last three agree within `width`
/// of their median, or when `most` values or `max_seconds` have passed. least = 0: at once.
struct WarmupRule {
  std::int64_t least = 1, most = 11;
  double max_seconds = 2;
  double width = 0.02;

  bool warm(std::span<const double> values, double elapsed_s) const;
};

}  // namespace shardlm
