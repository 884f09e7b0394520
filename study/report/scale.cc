#include "study/report/scale.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "study/report/number_text.h"

namespace shardlm::report {
namespace {

// As many digits as keep neighbours apart, no more.
std::string linear_label(double value, double step) {
  if (value == 0 || std::abs(value) < step / 1e6) return "0";
  const int first = static_cast<int>(std::floor(std::log10(std::abs(value)) + 1e-9));
  const int last = static_cast<int>(std::floor(std::log10(step) + 1e-9));
  return number_text(value, std::clamp(first - last + 1, 1, 12));
}

bool usable(double low, double high) {
  return std::isfinite(low) && std::isfinite(high) && low <= high && high < 1e300 && low > -1e300;
}

}  // namespace

double nice_step(double low, double high, int count) {
  const double raw = (high - low) / std::max(count, 1);
  const double power = std::pow(10.0, std::floor(std::log10(raw)));
  const double digit = raw / power;
  // Geometric means of neighbours: the step whose count is nearest in ratio.
  const double nice = digit < std::sqrt(2.0)    ? 1
                      : digit < std::sqrt(10.0) ? 2
                      : digit < std::sqrt(50.0) ? 5
                                                : 10;
  return nice * power;
}

std::vector<double> linear_ticks(double low, double high, int count) {
  std::vector<double> ticks;
  if (!(high > low)) return ticks;
  const double step = nice_step(low, high, count);
  const double first = std::ceil(low / step - 1e-9);
  for (double i = first; i * step <= high + step * 1e-9 && ticks.size() < 100; ++i)
    ticks.push_back(i * step);
  return ticks;
}

std::vector<Tick> log_ticks(double low, double high, int count) {
  std::vector<Tick> ticks;
  const double decades = std::log10(high / low);
  if (decades < 0.5) {
    const double step = nice_step(low, high, count);
    for (const double v : linear_ticks(low, high, count))
      ticks.push_back({v, linear_label(v, step)});
    return ticks;
  }
  const int every = std::max(1, static_cast<int>(std::ceil(decades / std::max(count, 1))));
  const int begin = static_cast<int>(std::floor(std::log10(low) + 1e-9));
  const int end = static_cast<int>(std::ceil(std::log10(high) - 1e-9));
  for (int power = begin; power <= end; ++power) {
    for (int digit = 1; digit < 10; ++digit) {
      const double value = digit * std::pow(10.0, power);
      if (value < low * (1 - 1e-9) || value > high * (1 + 1e-9)) continue;
      const bool named =
          digit == 1 ? power % every == 0 : decades < 2 && (digit == 2 || digit == 5);
      if (named || every == 1) ticks.push_back({value, named ? number_text(value, 1) : ""});
    }
  }
  return ticks;
}

double Scale::at(double value) const {
  const double share =
      logarithmic ? std::log(value / low) / std::log(high / low) : (value - low) / (high - low);
  return from + share * (to - from);
}

Scale linear_scale(double low, double high, double from, double to, int count) {
  Scale s{.from = from, .to = to};
  if (!usable(low, high)) low = high = 0;
  s.low = std::min(low, 0.0);
  s.high = high > s.low ? high : s.low + 1;
  const double step = nice_step(s.low, s.high, count);
  s.high = std::ceil(s.high / step - 1e-9) * step;
  s.low = std::floor(s.low / step + 1e-9) * step;
  for (const double v : linear_ticks(s.low, s.high, count))
    s.ticks.push_back({v, linear_label(v, step)});
  return s;
}

Scale log_scale(double low, double high, double from, double to, int count) {
  Scale s{.logarithmic = true, .from = from, .to = to};
  if (!usable(low, high) || low <= 0) low = high = 1;
  const double pad = std::max(std::pow(high / low, 0.04), low == high ? std::sqrt(10.0) : 1.02);
  s.low = low / pad;
  s.high = high * pad;
  s.ticks = log_ticks(s.low, s.high, count);
  return s;
}

}  // namespace shardlm::report
