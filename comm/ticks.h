// The clock of the records: the processor's time-stamp counter where it runs at one rate on all
// cores, else the steady clock in nanoseconds. Reading it costs some ten nanoseconds.
#pragma once

#include <chrono>
#include <cstdint>

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace shardlm {

inline std::int64_t steady_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

/// True if the CPU says that its counter neither changes its rate nor stops, and the system agrees.
bool find_invariant_tsc();

/// True if ticks() reads the time-stamp counter; found once.
inline bool ticks_are_tsc() {
  static const bool tsc = find_invariant_tsc();
  return tsc;
}

/// Of no unit: a TickScale makes nanoseconds of them. All that stands before it in the program has
/// been done when it is read, so that a rank's exit is no earlier than what it waited for.
inline std::int64_t ticks() {
#if defined(__x86_64__)
  if (ticks_are_tsc()) {
    unsigned core = 0;
    return static_cast<std::int64_t>(__rdtscp(&core));
  }
#endif
  return steady_ns();
}

/// Whose times a record holds.
enum class TickClock : std::uint8_t {
  cpu,     ///< those of ticks()
  steady,  ///< the steady clock's: where a device's times were mapped onto it
};

/// Both clocks at one moment.
struct TickAnchor {
  std::int64_t ticks = 0;
  std::int64_t steady_ns = 0;
  /// Reads the counter before and after the steady clock, and keeps the closest of some tries.
  static TickAnchor now();
};

/// Ticks to nanoseconds of the steady clock, through two anchors: exact at both, and linear between
/// and beyond. The further apart they are, the less it matters that an anchor is read in some 20
/// ns.
class TickScale {
 public:
  TickScale() = default;  ///< of a clock that counts nanoseconds
  TickScale(const TickAnchor& from, const TickAnchor& to);
  std::int64_t ns(std::int64_t ticks) const;
  double ns_per_tick() const { return ns_per_tick_; }

 private:
  TickAnchor from_;
  double ns_per_tick_ = 1;
};

}  // namespace shardlm
