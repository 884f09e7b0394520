#include "study/measuring.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/error.h"

namespace shardlm {

std::pair<double, double> median_interval(std::span<const double> sorted) {
  const auto n = static_cast<double>(sorted.size());
  const double reach = 0.98 * std::sqrt(n);
  const auto low = static_cast<std::ptrdiff_t>(std::floor(n / 2 - reach));
  const auto high = static_cast<std::ptrdiff_t>(std::ceil(n / 2 + reach));
  const auto last = static_cast<std::ptrdiff_t>(sorted.size()) - 1;
  const auto at = [&](std::ptrdiff_t i) {
    return sorted[static_cast<std::size_t>(std::clamp<std::ptrdiff_t>(i, 0, last))];
  };
  return {at(low), at(high)};
}

std::optional<double> MedianEstimate::relative_width() const {
  if (!low || median == 0) return std::nullopt;
  return (*high - *low) / median;
}

MedianEstimate estimate_median(std::vector<double> values) {
  check(!values.empty(), "a median of something");
  std::sort(values.begin(), values.end());
  const std::size_t n = values.size();
  MedianEstimate estimate;
  estimate.median = (values[(n - 1) / 2] + values[n / 2]) / 2;
  estimate.least = values.front();
  estimate.most = values.back();
  if (n >= kLeastForInterval) {
    const auto [low, high] = median_interval(values);
    estimate.low = low;
    estimate.high = high;
  }
  return estimate;
}

std::string_view name(Stopped stopped) {
  constexpr std::array<std::string_view, 3> names = {"precise", "most", "time"};
  return names.at(static_cast<std::size_t>(stopped));
}

std::optional<Stopped> StopRule::stop(const std::vector<double>& values, double elapsed_s) const {
  const auto n = static_cast<std::int64_t>(values.size());
  if (n < least || n == 0) return std::nullopt;
  const std::optional<double> found = estimate_median(values).relative_width();
  if (found && *found <= width) return Stopped::precise;
  if (n >= most) return Stopped::most;
  if (elapsed_s >= max_seconds) return Stopped::time;
  return std::nullopt;
}

bool WarmupRule::warm(std::span<const double> values, double elapsed_s) const {
  const auto n = static_cast<std::int64_t>(values.size());
  if (least == 0) return true;
  if (n < least) return false;
  if (n >= most || elapsed_s >= max_seconds) return true;
  if (n < 3) return false;
  std::array<double, 3> last{};
  std::copy(values.end() - 3, values.end(), last.begin());
  std::sort(last.begin(), last.end());
  return last[2] - last[0] <= width * last[1];
}

}  // namespace shardlm
