#include "comm/wait.h"

#include <sched.h>

#include <algorithm>
#include <thread>

namespace shardlm {
namespace {

using namespace std::chrono_literals;

constexpr auto kSpinFor = 30us;
constexpr auto kYieldFor = 5ms;
constexpr auto kYieldForOversubscribed = 200us;
constexpr std::chrono::nanoseconds kShortestSleep = 50us;
constexpr std::chrono::nanoseconds kLongestSleep = 1ms;
constexpr int kSpinsPerClock = 16;  // reading the clock costs about as much as a pause
// Longer limits than this are none: the clock counts nanoseconds in 63 bits.
constexpr double kLongestLimit_s = 1e9;

void relax_core() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

std::chrono::steady_clock::time_point after(double seconds) {
  if (seconds <= 0 || seconds > kLongestLimit_s)
    return std::chrono::steady_clock::time_point::max();
  return std::chrono::steady_clock::now() + std::chrono::duration_cast<std::chrono::nanoseconds>(
                                                std::chrono::duration<double>(seconds));
}

}  // namespace

Backoff::Backoff(bool oversubscribed, double limit_s)
    : oversubscribed_(oversubscribed), start_(Clock::now()), deadline_(after(limit_s)) {}

bool Backoff::pause() {
  if (!oversubscribed_ && spins_ >= 0) {
    relax_core();
    if (++spins_ % kSpinsPerClock != 0) return true;
  }
  const auto now = Clock::now();
  if (now >= deadline_) return false;
  const auto waited = now - start_;
  if (!oversubscribed_ && waited < kSpinFor) return true;
  spins_ = -1;  // done with spinning
  if (waited < (oversubscribed_ ? kYieldForOversubscribed : kYieldFor)) {
    sched_yield();
  } else {
    const auto step =
        std::clamp<std::chrono::nanoseconds>(waited / 16, kShortestSleep, kLongestSleep);
    std::this_thread::sleep_for(std::min<std::chrono::nanoseconds>(step, deadline_ - now));
  }
  return true;
}

void Backoff::shorten(double limit_s) {
  deadline_ =
      std::min(deadline_, Clock::now() + std::chrono::duration_cast<std::chrono::nanoseconds>(
                                             std::chrono::duration<double>(limit_s)));
}

}  // namespace shardlm
