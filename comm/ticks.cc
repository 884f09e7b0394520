#include "comm/ticks.h"

#include <cmath>
#include <fstream>
#include <limits>
#include <string>

#include "base/error.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace shardlm {
namespace {

#if defined(__x86_64__)
bool cpu_has_invariant_tsc() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  constexpr unsigned kRdtscp = 1U << 27, kInvariantTsc = 1U << 8;
  if (__get_cpuid(0x80000001U, &a, &b, &c, &d) == 0 || (d & kRdtscp) == 0) return false;
  return __get_cpuid(0x80000007U, &a, &b, &c, &d) != 0 && (d & kInvariantTsc) != 0;
}
#endif

// Linux clears these flags where it has found cores whose counters disagree.
bool system_trusts_tsc() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("flags")) continue;
    line += ' ';
    return line.find(" constant_tsc ") != std::string::npos &&
           line.find(" nonstop_tsc ") != std::string::npos;
  }
  return false;
}

}  // namespace

bool find_invariant_tsc() {
#if defined(__x86_64__)
  return cpu_has_invariant_tsc() && system_trusts_tsc();
#else
  return false;
#endif
}

TickAnchor TickAnchor::now() {
  constexpr int kTries = 32;
  TickAnchor best;
  std::int64_t best_width = std::numeric_limits<std::int64_t>::max();
  for (int i = 0; i < kTries; ++i) {
    const std::int64_t before = shardlm::ticks();
    const std::int64_t ns = shardlm::steady_ns();
    const std::int64_t after = shardlm::ticks();
    if (after - before >= best_width) continue;
    best_width = after - before;
    best = {before + best_width / 2, ns};
  }
  return best;
}

TickScale::TickScale(const TickAnchor& from, const TickAnchor& to) : from_(from) {
  check(to.ticks > from.ticks && to.steady_ns > from.steady_ns, "anchors of a clock: in order");
  ns_per_tick_ = static_cast<double>(to.steady_ns - from.steady_ns) /
                 static_cast<double>(to.ticks - from.ticks);
}

std::int64_t TickScale::ns(std::int64_t ticks) const {
  return from_.steady_ns + std::llround(static_cast<double>(ticks - from_.ticks) * ns_per_tick_);
}

}  // namespace shardlm
