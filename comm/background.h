// Work that goes on beside its owner's arithmetic: on a thread of its own, or in turns on the
// owner's thread.
#pragma once

#include <functional>
#include <memory>

namespace shardlm {

/// Destroyed with unfinished work it lets that fail at its next pause: no rank is waited for.
class Background {
 public:
  virtual ~Background() = default;

  /// Works run one after another, in the order in which they were started.
  virtual void start(std::function<void()> work) = 0;
  /// Until the oldest one not yet awaited has ended; rethrows what it has thrown.
  virtual void wait() = 0;
  /// The owner says, between pieces of its arithmetic, that a work which waits may look again.
  virtual void poll() {}

 protected:
  Background() = default;
  Background(const Background&) = delete;
  Background& operator=(const Background&) = delete;
};

/// A thread that works while the owner computes. It sleeps while there is no work.
std::unique_ptr<Background> make_background_thread();

/// A fiber of the owner's thread: a work runs until it has to wait for another rank (Backoff), and
/// goes on in poll() or wait(). For systems without a core to spare. poll() and wait() are called
/// on the thread that called start().
std::unique_ptr<Background> make_background_fiber();

/// What a rank does while it waits (Backoff::pause); each thread has at most one at a time.
class PauseHook {
 public:
  virtual ~PauseHook() = default;
  /// Called at each pause; may switch to other work, or throw to give up the wait. True: another
  /// work was done meanwhile, so that nothing else need be.
  virtual bool pause() = 0;
  static PauseHook*& current();
};

}  // namespace shardlm
