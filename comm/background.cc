#include "comm/background.h"

#include <atomic>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

#include "base/error.h"
#include "comm/fiber.h"

namespace shardlm {
namespace {

// What ends a work whose owner goes away.
struct GivenUp {};

struct Work {
  std::function<void()> run;
  std::exception_ptr error;
  bool ended = false;
};

void run_guarded(Work& work) {
  try {
    work.run();
  } catch (const GivenUp&) {
  } catch (...) {
    work.error = std::current_exception();
  }
}

class BackgroundThread final : public Background, private PauseHook {
 public:
  BackgroundThread() : thread_([this] { run(); }) {}

  ~BackgroundThread() override {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  void start(std::function<void()> work) override {
    {
      const std::lock_guard lock(mutex_);
      works_.push_back({std::move(work), nullptr, false});
    }
    changed_.notify_all();
  }

  void wait() override {
    std::unique_lock lock(mutex_);
    check(!works_.empty(), "a background work is awaited that was not started");
    changed_.wait(lock, [this] { return works_.front().ended; });
    const std::exception_ptr error = works_.front().error;
    works_.pop_front();
    --n_ended_;
    lock.unlock();
    if (error) std::rethrow_exception(error);
  }

 private:
  bool pause() override {
    if (stop_.load(std::memory_order_relaxed)) throw GivenUp();
    return false;
  }

  // A deque's elements stay where they are while others come and go at its ends.
  void run() {
    current() = this;
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [this] { return stop_ || n_ended_ < works_.size(); });
      if (stop_) return;
      Work& work = works_[n_ended_];
      lock.unlock();
      run_guarded(work);
      lock.lock();
      work.ended = true;
      ++n_ended_;
      changed_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Work> works_;   // guarded by mutex_, but for the insides of the one that runs
  std::size_t n_ended_ = 0;  // the first so many of works_ have ended
  std::atomic<bool> stop_ = false;
  std::thread thread_;
};

class BackgroundFiber final : public Background, private PauseHook {
 public:
  BackgroundFiber() : fiber_([this] { run(); }) {}

  ~BackgroundFiber() override {
    stop_ = true;
    while (!fiber_.done()) enter();
  }

  void start(std::function<void()> work) override {
    works_.push_back({std::move(work), nullptr, false});
    poll();
  }

  void poll() override {
    if (n_ended_ < works_.size()) enter();
  }

  void wait() override {
    check(!works_.empty(), "a background work is awaited that was not started");
    // The owner has nothing else to do: the work pauses as any wait does.
    alone_ = true;
    while (!works_.front().ended) enter();
    alone_ = false;
    const std::exception_ptr error = works_.front().error;
    works_.pop_front();
    --n_ended_;
    if (error) std::rethrow_exception(error);
  }

 private:
  void enter() {
    PauseHook* const outer = std::exchange(current(), static_cast<PauseHook*>(this));
    owners_exception_ = std::current_exception();
    fiber_.resume();
    current() = outer;
  }

  bool pause() override {
    // Inside of a handler the work cleans up. The thread has one state of exceptions for both, so
    // the owner must not go on from there.
    if (std::current_exception() != owners_exception_) return false;
    if (stop_) throw GivenUp();
    if (alone_) return false;
    fiber_.suspend();
    if (stop_) throw GivenUp();
    return true;
  }

  void run() {
    while (!stop_) {
      if (n_ended_ == works_.size()) {
        fiber_.suspend();
        continue;
      }
      Work& work = works_[n_ended_];
      run_guarded(work);
      work.ended = true;
      ++n_ended_;
      if (alone_) fiber_.suspend();
    }
  }

  std::deque<Work> works_;
  std::size_t n_ended_ = 0;
  bool stop_ = false;
  bool alone_ = false;
  std::exception_ptr owners_exception_;  // what the owner was handling when it entered
  Fiber fiber_;
};

}  // namespace

PauseHook*& PauseHook::current() {
  thread_local PauseHook* hook = nullptr;
  return hook;
}

std::unique_ptr<Background> make_background_thread() {
  return std::make_unique<BackgroundThread>();
}

std::unique_ptr<Background> make_background_fiber() { return std::make_unique<BackgroundFiber>(); }

}  // namespace shardlm
