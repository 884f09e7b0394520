// Waiting for another rank: quick while the wait is short, cheap while it is long.
#pragma once

#include <chrono>

namespace shardlm {

class PauseHook;

/// How one rank waits, and what its waits so far have taught it of the machine.
class Waiter {
 public:
  /// `oversubscribed`: more ranks than cores on this node.
  explicit Waiter(bool oversubscribed) : oversubscribed_(oversubscribed) {}

 private:
  friend class Backoff;
  bool oversubscribed_;
  int crowded_waits_ = 0;  ///< so many waits from now do not yield
};

/// The pauses of one wait. First it spins (about 30 us, the time of an all-reduce), then it gives
/// the core away at each step (milliseconds, the time that ranks differ in a prefill), then it
/// sleeps in steps that grow with the time waited, from 50 us to 1 ms, and 2 ms after a quarter of
/// a second: an idle rank uses well below 5 % of a core and is awake about 2 ms after it is called.
/// With more ranks than cores a spinning rank would hold up the one it waits for: it yields at once
/// and sleeps early. A yield that costs a time slice tells of busy strangers, who would take one
/// each time: it is then left out for a while, since the kernel is quicker to wake a sleeper than
/// to come back to one that yields.
class Backoff {
 public:
  /// `limit_s`: seconds from now to the deadline; 0 or less: none.
  Backoff(Waiter& waiter, double limit_s);

  /// Waits one step. False once the deadline has passed.
  bool pause();

  /// Moves the deadline to `limit_s` from now if that is sooner.
  void shorten(double limit_s);

 private:
  using Clock = std::chrono::steady_clock;

  void yield(Clock::time_point now);

  Waiter& waiter_;
  PauseHook* hook_;  ///< of this thread: where the wait is one of a work in the background
  bool spins_;
  bool yields_;
  int spun_ = 0;
  Clock::time_point start_;
  Clock::time_point deadline_;
};

/// Pauses until ready() is true. False: the deadline passed, and ready() is false still.
template <class Ready>
bool wait_until(Ready&& ready, Waiter& waiter, double limit_s) {
  if (ready()) return true;  // no clock is read for what is there already
  Backoff backoff(waiter, limit_s);
  while (backoff.pause()) {
    if (ready()) return true;
  }
  return ready();  // this rank itself may have been stopped past its deadline
}

}  // namespace shardlm
