#include "study/machine_noise.h"

#include <algorithm>
#include <cstdint>

#include "comm/ticks.h"
#include "study/statistics.h"

namespace shardlm {
namespace {

// A chain of multiplications and additions, each waiting for the one before: some microseconds.
std::uint64_t spin(std::uint64_t x) {
  for (int i = 0; i < 4000; ++i) x = x * 6364136223846793005U + 1442695040888963407U;
  return x;
}

double ns_of_a_tick() {
  if (!ticks_are_tsc()) return 1;
  const TickAnchor first = TickAnchor::now();
  while (steady_ns() - first.steady_ns < 2'000'000) {
  }
  return TickScale(first, TickAnchor::now()).ns_per_tick();
}

}  // namespace

Canary canary_of(std::vector<double> times_us) {
  Canary canary;
  canary.p50_us = quantile(times_us, 0.5);
  canary.p99_us = quantile(times_us, 0.99);
  return canary;
}

Canary run_canary(std::size_t samples) {
  std::vector<double> times_us;
  times_us.reserve(samples);
  volatile std::uint64_t kept = 1;
  for (std::size_t i = 0; i < samples; ++i) {
    const std::int64_t start = steady_ns();
    kept = spin(kept);
    times_us.push_back(static_cast<double>(steady_ns() - start) * 1e-3);
  }
  return canary_of(std::move(times_us));
}

TimerFacts measure_timer() {
  constexpr int kReadings = 4001;
  std::vector<std::int64_t> at(kReadings);
  for (std::int64_t& t : at) t = ticks();
  std::vector<double> gaps;
  double least = 0;
  for (std::size_t i = 1; i < at.size(); ++i) {
    const auto gap = static_cast<double>(at[i] - at[i - 1]);
    gaps.push_back(gap);
    if (gap > 0 && (least == 0 || gap < least)) least = gap;
  }
  const double ns = ns_of_a_tick();
  return {ticks_are_tsc() ? "time-stamp counter (RDTSCP)" : "steady clock", median(gaps) * ns,
          least * ns};
}

}  // namespace shardlm
