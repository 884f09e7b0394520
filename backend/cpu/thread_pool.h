// The threads of one CPU back end.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace shardlm {

/// A fixed team: the caller and size() - 1 workers. Work is cut statically, so that a part always
/// stands where it stood before in the caches. Between two calls the workers spin for some tens of
/// microseconds, then sleep: an idle back end uses no CPU. For use from one thread at a time.
/// A team as large as the set of cores that this process may use gets a core a worker, so that two
/// never share one while another is free; the caller's thread is not ours to bind. A smaller team
/// is left to the system, which knows who else wants the cores (other ranks may have the same set),
/// and so is a larger one, which does not spin either.
class ThreadPool {
 public:
  /// `threads` >= 1, the caller included; may exceed the machine's cores.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  /// Called by poll(), that is by what runs here between pieces of its work on the caller's thread.
  void set_poll(std::function<void()> poll) { poll_ = std::move(poll); }
  void poll(int worker) const {
    if (worker == 0 && poll_) poll_();
  }

  int size() const { return static_cast<int>(workers_.size()) + 1; }
  /// Parallel regions so far that more than the caller worked on: each is a start and a barrier.
  std::uint64_t runs() const { return runs_; }

  /// Cuts [0, n) into one range a thread, of `grain` items at least (so that little work wakes
  /// nobody), and calls fn(begin, end, worker) for each, worker in [0, size()). Returns when all
  /// are done; throws again what one of them threw. Never allocates.
  template <class Fn>
  void parallel_for(std::int64_t n, std::int64_t grain, const Fn& fn) {
    if (n <= 0) return;
    const std::int64_t parts = parts_for(n, grain);
    if (parts == 1) {
      fn(std::int64_t{0}, n, 0);
      return;
    }
    run(Job{[](const void* f, std::int64_t begin, std::int64_t end, int worker) {
              (*static_cast<const Fn*>(f))(begin, end, worker);
            },
            &fn, n, parts});
  }

 private:
  struct Job {
    void (*call)(const void* fn, std::int64_t begin, std::int64_t end, int worker) = nullptr;
    const void* fn = nullptr;
    std::int64_t n = 0, parts = 0;
  };

  template <class Ready>
  bool spin_until(const Ready& ready) const;
  std::int64_t parts_for(std::int64_t n, std::int64_t grain) const;
  void run(const Job& job);
  void run_part(int worker);
  void start_workers(int threads);
  void stop_workers();
  void work(int worker);
  std::uint32_t wait_for_job(std::uint32_t seen);
  void wait_for_workers();

  // A line of the caches each for what the caller writes and for what the workers write, so that a
  // start is one transfer and an end another.
  alignas(64) Job job_;
  std::atomic<std::uint32_t> epoch_{0};  // counts jobs; a change is the signal to start
  std::atomic<bool> stop_{false};
  alignas(64) std::atomic<int> pending_{0};   // workers that have not finished the current job
  alignas(64) std::atomic<int> sleepers_{0};  // workers inside start_.wait
  std::atomic<bool> caller_sleeps_{false};
  std::uint64_t runs_ = 0;
  std::function<void()> poll_;
  bool spins_ = true;  // false: more threads than cores, whoever spins is in another's way
  std::mutex mutex_;
  std::condition_variable start_, done_;
  std::exception_ptr error_;  // guarded by mutex_ while a job runs
  std::vector<std::thread> workers_;
};

}  // namespace shardlm
