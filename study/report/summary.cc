#include "study/report/summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "study/report/number_text.h"
#include "study/statistics.h"

namespace shardlm::report {

std::optional<std::pair<std::size_t, std::size_t>> median_interval(std::size_t n) {
  // How likely is it that k or fewer of n values lie below the median? Summed until it is too much.
  constexpr double kTail = 0.025;
  const double log_all = static_cast<double>(n) * std::log(2.0);
  double below = 0;
  std::size_t k = 0;
  for (; 2 * k < n; ++k) {
    const auto a = static_cast<double>(n), b = static_cast<double>(k);
    below += std::exp(std::lgamma(a + 1) - std::lgamma(b + 1) - std::lgamma(a - b + 1) - log_all);
    if (below > kTail) break;
  }
  if (k == 0) return std::nullopt;
  return std::pair{k - 1, n - k};
}

Summary summarise(std::vector<double> launches) {
  Summary s;
  s.launches = launches.size();
  if (launches.empty()) return s;
  std::sort(launches.begin(), launches.end());
  if (const auto places = median_interval(launches.size())) {
    s.low = launches[places->first];
    s.high = launches[places->second];
    s.spread = Spread::interval;
  } else if (launches.size() > 1) {
    s.low = launches.front();
    s.high = launches.back();
    s.spread = Spread::range;
  }
  s.middle = median(launches);
  return s;
}

std::string spread_text(const Summary& s) {
  switch (s.spread) {
    case Spread::interval:
      return fmt::format("95 % interval of the median over {} launches", s.launches);
    case Spread::range:
      return fmt::format("least and largest of {} launches (too few for a confidence interval)",
                         s.launches);
    case Spread::repetitions:
      return "95 % interval over the repetitions of one launch (says nothing of other launches)";
    case Spread::none:
      break;
  }
  return "no spread: one value";
}

std::string range_text(const Summary& s) {
  if (!s.low || !s.high) return "–";
  return number_text(*s.low) + "…" + number_text(*s.high);
}

Verdict compare(const Summary& a, const Summary& b) {
  if (!a.low || !a.high || !b.low || !b.high) return Verdict::unknown;
  if (*a.low > *b.high) return Verdict::higher;
  if (*a.high < *b.low) return Verdict::lower;
  return Verdict::no_difference;
}

Summary ratio(const Summary& a, const Summary& b) {
  Summary r;
  r.launches = std::min(a.launches, b.launches);
  r.middle = a.middle / b.middle;
  if (a.low && a.high && b.low && b.high) {
    r.low = *a.low / *b.high;
    r.high = *a.high / *b.low;
    r.spread = std::min(a.spread, b.spread);
  }
  return r;
}

Summary scaled(Summary s, double factor) {
  s.middle *= factor;
  if (s.low) *s.low *= factor;
  if (s.high) *s.high *= factor;
  return s;
}

}  // namespace shardlm::report
