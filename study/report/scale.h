// From numbers to places on an axis, and which numbers to name there.
#pragma once

#include <string>
#include <vector>

namespace shardlm::report {

struct Tick {
  double value = 0;
  std::string label = {};  ///< empty: a small tick
};

/// 1, 2 or 5 times a power of ten, so that about `count` multiples lie in low..high.
double nice_step(double low, double high, int count);
/// Multiples of nice_step in low..high.
std::vector<double> linear_ticks(double low, double high, int count);
/// Of 0 < low < high: powers of ten with a label (every second or third where they are many), 2…9
/// between them without; within less than two decades 1, 2 and 5 have one, within less than half of
/// one linear ticks.
std::vector<Tick> log_ticks(double low, double high, int count);

struct Scale {
  bool logarithmic = false;
  double low = 0, high = 1;  ///< the domain
  double from = 0, to = 1;   ///< where its ends lie, in pixels
  std::vector<Tick> ticks = {};

  double at(double value) const;  ///< the place, also outside of the domain
};

/// From 0 (or a negative `low`) to a nice number above `high`.
Scale linear_scale(double low, double high, double from, double to, int count = 5);
/// Both ends widened a little. Of values that are not positive and finite: one decade around 1.
Scale log_scale(double low, double high, double from, double to, int count = 5);

}  // namespace shardlm::report
