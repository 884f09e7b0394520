#include "comm/wait.h"

#include <sched.h>

#include <algorithm>
#include <thread>

#include "comm/background.h"

namespace shardlm {
namespace {

using namespace std::chrono_literals;

constexpr auto kSpinFor = 30us;
constexpr auto kYieldFor = 5ms;
constexpr auto kYieldForOversubscribed = 200us;
constexpr auto kSliceLost = 1ms;
constexpr int kCrowdedWaits = 100;
constexpr std::chrono::nanoseconds kShortestSleep = 50us;
constexpr std::chrono::nanoseconds kLongestSleep = 1ms;
// Who waits as long as this waits for a person, who does not notice the second millisecond.
constexpr auto kIdleAfter = 250ms;
constexpr std::chrono::nanoseconds kIdleSleep = 2ms;
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

Backoff::Backoff(Waiter& waiter, double limit_s)
    : waiter_(waiter),
      hook_(PauseHook::current()),
      spins_(!waiter.oversubscribed_),
      yields_(waiter.crowded_waits_ == 0),
      start_(Clock::now()),
      deadline_(after(limit_s)) {
  if (!yields_) --waiter_.crowded_waits_;
}

bool Backoff::pause() {
  if (hook_ != nullptr && hook_->pause()) return Clock::now() < deadline_;
  if (spins_) {
    relax_core();
    if (++spun_ % kSpinsPerClock != 0) return true;
  }
  const auto now = Clock::now();
  if (now >= deadline_) return false;
  const auto waited = now - start_;
  if (spins_ && waited < kSpinFor) return true;
  spins_ = false;
  if (yields_ && waited < (waiter_.oversubscribed_ ? kYieldForOversubscribed : kYieldFor)) {
    yield(now);
  } else {
    const auto longest = waited < kIdleAfter ? kLongestSleep : kIdleSleep;
    const auto step = std::clamp<std::chrono::nanoseconds>(waited / 16, kShortestSleep, longest);
    std::this_thread::sleep_for(std::min<std::chrono::nanoseconds>(step, deadline_ - now));
  }
  return true;
}

void Backoff::yield(Clock::time_point now) {
  sched_yield();
  if (Clock::now() - now < kSliceLost) return;
  yields_ = false;
  waiter_.crowded_waits_ = kCrowdedWaits;
}

void Backoff::shorten(double limit_s) {
  deadline_ =
      std::min(deadline_, Clock::now() + std::chrono::duration_cast<std::chrono::nanoseconds>(
                                             std::chrono::duration<double>(limit_s)));
}

}  // namespace shardlm
