#include "backend/cpu/thread_pool.h"

#include <hwy/cache_control.h>
#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <system_error>
#include <utility>

#include "base/error.h"

namespace shardlm {
namespace {

using Clock = std::chrono::steady_clock;

// Longer than the gap between two ops of a step, shorter than what anybody would notice as load.
// The clock is looked at after some pauses, whose length differs tenfold between processors. Then
// some yields, for machines with more threads than cores.
constexpr auto kSpinTime = std::chrono::microseconds(75);
constexpr int kPauses = 32;
constexpr int kYields = 16;

// The cores that this process may use; 0: unknown.
int allowed_cores(cpu_set_t& cores) {
  CPU_ZERO(&cores);
  // Fails on machines with more than 1024 cores.
  return sched_getaffinity(0, sizeof cores, &cores) == 0 ? CPU_COUNT(&cores) : 0;
}

// The `index`-th of the set, counted from the one behind `from`, round and round.
int core_after(const cpu_set_t& cores, int from, int index) {
  int core = from;
  for (int left = index; left > 0;) {
    core = (core + 1) % CPU_SETSIZE;
    if (CPU_ISSET(static_cast<unsigned>(core), &cores)) --left;
  }
  return core;
}

// A refusal changes nothing but speed: the thread then runs where the system puts it.
void bind(std::thread& thread, int core) {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(static_cast<unsigned>(core), &one);
  pthread_setaffinity_np(thread.native_handle(), sizeof one, &one);
}

}  // namespace

template <class Ready>
bool ThreadPool::spin_until(const Ready& ready) const {
  if (ready()) return true;
  if (spins_) {
    const auto end = Clock::now() + kSpinTime;
    do {
      for (int i = 0; i < kPauses; ++i) {
        hwy::Pause();
        if (ready()) return true;
      }
    } while (Clock::now() < end);
  }
  for (int i = 0; i < kYields; ++i) {
    std::this_thread::yield();
    if (ready()) return true;
  }
  return false;
}

ThreadPool::ThreadPool(int threads) {
  check(threads >= 1, "a thread pool has at least one thread");
  start_workers(threads);
}

void ThreadPool::start_workers(int threads) {
  cpu_set_t cores;
  const int allowed = allowed_cores(cores);
  spins_ = allowed == 0 || threads <= allowed;
  const int caller = sched_getcpu();
  const bool bound = threads == allowed && caller >= 0 && caller < CPU_SETSIZE;
  workers_.reserve(static_cast<std::size_t>(threads - 1));
  try {
    for (int worker = 1; worker < threads; ++worker) {
      workers_.emplace_back([this, worker] { work(worker); });
      if (bound) bind(workers_.back(), core_after(cores, caller, worker));
    }
  } catch (const std::system_error& error) {
    stop_workers();
    fail(ExitCode::resources, {.what = "starting the threads of the CPU back end",
                               .expected = std::to_string(threads) + " threads",
                               .found = error.what(),
                               .remedy = "ask for fewer threads"});
  }
}

ThreadPool::~ThreadPool() { stop_workers(); }

void ThreadPool::stop_workers() {
  stop_ = true;
  epoch_.fetch_add(1);
  { const std::lock_guard lock(mutex_); }
  start_.notify_all();
  for (std::thread& thread : workers_) thread.join();
}

std::int64_t ThreadPool::parts_for(std::int64_t n, std::int64_t grain) const {
  const std::int64_t useful = n / std::max<std::int64_t>(grain, 1);
  return std::clamp<std::int64_t>(useful, 1, size());
}

// The counters are sequentially consistent: whoever goes to sleep first announces it and then
// looks at the condition once more, whoever changes the condition first changes it and then looks
// for sleepers. One of the two sees the other.
void ThreadPool::run(const Job& job) {
  ++runs_;
  job_ = job;
  pending_ = static_cast<int>(workers_.size());
  epoch_.fetch_add(1);
  if (sleepers_ > 0) {
    { const std::lock_guard lock(mutex_); }
    start_.notify_all();
  }
  run_part(0);
  wait_for_workers();
  if (std::exception_ptr error = std::exchange(error_, nullptr)) std::rethrow_exception(error);
}

void ThreadPool::run_part(int worker) {
  const Job& job = job_;
  if (worker >= job.parts) return;
  try {
    job.call(job.fn, job.n * worker / job.parts, job.n * (worker + 1) / job.parts, worker);
  } catch (...) {
    const std::lock_guard lock(mutex_);
    if (!error_) error_ = std::current_exception();
  }
}

void ThreadPool::wait_for_workers() {
  const auto finished = [this] { return pending_ == 0; };
  if (spin_until(finished)) return;
  std::unique_lock lock(mutex_);
  caller_sleeps_ = true;
  done_.wait(lock, finished);
  caller_sleeps_ = false;
}

std::uint32_t ThreadPool::wait_for_job(std::uint32_t seen) {
  const auto changed = [this, seen] { return epoch_ != seen; };
  if (!spin_until(changed)) {
    std::unique_lock lock(mutex_);
    ++sleepers_;
    start_.wait(lock, changed);
    --sleepers_;
  }
  return epoch_;
}

void ThreadPool::work(int worker) {
  std::uint32_t seen = 0;
  while (true) {
    seen = wait_for_job(seen);
    if (stop_) return;
    run_part(worker);
    if (pending_.fetch_sub(1) == 1 && caller_sleeps_) {
      const std::lock_guard lock(mutex_);
      done_.notify_one();
    }
  }
}

}  // namespace shardlm
