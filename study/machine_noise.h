// How good the machine's clock is, and how quiet its cores are.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace shardlm {

/// The canary: how long a fixed loop takes on this core, again and again. What makes it longer is
/// no work of ours.
struct Canary {
  double p50_us = 0, p99_us = 0;
  double ratio() const { return p50_us > 0 ? p99_us / p50_us : 1; }
};
/// Above this ratio a result is marked as noisy.
inline constexpr double kNoisyRatio = 1.5;
/// Enough to tell p99, some 10 ms.
inline constexpr std::size_t kCanarySamples = 2000;

Canary run_canary(std::size_t samples = kCanarySamples);
/// Of such times in microseconds.
Canary canary_of(std::vector<double> times_us);

/// The clock that calls are timed with.
struct TimerFacts {
  std::string name;          ///< "time-stamp counter (RDTSCP)", "steady clock"
  double cost_ns = 0;        ///< of reading it, median
  double resolution_ns = 0;  ///< the least difference above 0 of two readings, one after the other
};
TimerFacts measure_timer();

}  // namespace shardlm
