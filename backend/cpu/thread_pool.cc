#include "backend/cpu/thread_pool.h"

#include <hwy/cache_control.h>

#include <algorithm>
#include <system_error>
#include <utility>

#include "base/error.h"

namespace shardlm {
namespace {

// About 50 microseconds of spinning: longer than the gap between two ops of a step, shorter than
// what anybody would notice as load. Then some yields, for machines with more threads than cores.
constexpr int kSpins = 1000;
constexpr int kYields = 16;

template <class Ready>
bool spin_until(const Ready& ready) {
  for (int i = 0; i < kSpins; ++i) {
    if (ready()) return true;
    hwy::Pause();
  }
  for (int i = 0; i < kYields; ++i) {
    if (ready()) return true;
    std::this_thread::yield();
  }
  return ready();
}

}  // namespace

ThreadPool::ThreadPool(int threads) {
  check(threads >= 1, "a thread pool has at least one thread");
  workers_.reserve(static_cast<std::size_t>(threads - 1));
  try {
    for (int worker = 1; worker < threads; ++worker) {
      workers_.emplace_back([this, worker] { work(worker); });
    }
  } catch (const std::system_error& error) {
    stop_ = true;
    epoch_.fetch_add(1);
    { const std::lock_guard lock(mutex_); }
    start_.notify_all();
    for (std::thread& thread : workers_) thread.join();
    fail(ExitCode::resources, {.what = "starting the threads of the CPU back end",
                               .expected = std::to_string(threads) + " threads",
                               .found = error.what(),
                               .remedy = "ask for fewer threads"});
  }
}

ThreadPool::~ThreadPool() {
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
