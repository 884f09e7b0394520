// One OS thread's engine: runs the blocks that are given to it, one after the other.
#pragma once

#include <exception>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "tests/gpu/emulation/engine.h"
#include "tests/gpu/emulation/fiber.h"
#include "tests/gpu/emulation/ready_queue.h"
#include "tests/gpu/emulation/sanitizers.h"

namespace shardlm::emu {

/// Where the lanes of one mask of one warp meet.
struct GatherPoint {
  unsigned mask = 0, arrived = 0, generation = 0;
  Site site;
  Gathered buffer[4];  // by generation: a caller may hold the results of two meetings
  char token[2];
};

struct Warp {
  unsigned live = 0;  // the lanes that have not ended
  std::vector<std::unique_ptr<GatherPoint>> points;
};

enum class Waiting { no, barrier, warp };
struct Thread : Context {
  Fiber* fiber = nullptr;
  Waiting waiting = Waiting::no;
  Site site;
  bool done = false;
  std::vector<std::vector<PendingCopy>> copies{1};
};

/// The shared variables of one block: each a heap object of its own, so that AddressSanitizer knows
/// its bounds, and NaN before the block writes it.
class SharedMemory {
 public:
  void reset(std::size_t dynamic_bytes);
  void* variable(const void* key, std::size_t bytes);
  void* dynamic() { return dynamic_.get(); }

 private:
  struct Variable {
    const void* key;
    std::unique_ptr<char[]> memory;
  };
  std::vector<Variable> variables_;
  std::unique_ptr<char[]> dynamic_;
  std::size_t static_bytes_ = 0, dynamic_bytes_ = 0;
};

class Worker {
 public:
  void run_block(dim3 grid, dim3 block, uint3 index, std::size_t dynamic_bytes, void (*body)(void*),
                 void* argument, std::mt19937& random);

  void sync_block(Site site);
  int sync_block_count(int predicate, Site site);
  const Gathered& gather(unsigned mask, std::uint64_t low, std::uint64_t high, bool fence,
                         Site site);
  void yield();
  unsigned live_lanes() { return warp_of(self()).live; }
  SharedMemory& shared() { return shared_; }
  Thread& self() { return *static_cast<Thread*>(current); }

 private:
  void set_up_threads(dim3 block);
  void report_failure(uint3 index);
  Warp& warp_of(const Thread& t) { return warps_[static_cast<std::size_t>(t.warp)]; }

  void open_barrier();
  GatherPoint& point_of(Warp& warp, unsigned mask, int lane, Site site);
  void complete(GatherPoint& point, int warp, int except_lane);

  void suspend(Waiting why, Site site);
  void continue_as(Thread& thread);
  void resume_next(Fiber& from);
  Fiber* pick(Fiber& from);
  Fiber* take_fiber();
  void add_fiber();
  static void fiber_main(Fiber* self);
  void fiber_loop(Fiber* self);
  void run_thread(Thread& thread);
  void finish_thread(Thread& thread);

  // Under ThreadSanitizer each CUDA thread is a thread of its: fibers are then a fixed set, reused
  // only from block to block. Otherwise an idle fiber takes up the next thread itself.
  static constexpr bool kOneFiberPerThread = kThreadSanitizer;

  Fiber main_;
  std::vector<std::unique_ptr<Fiber>> pool_;
  std::vector<Fiber*> free_;
  std::size_t used_ = 0;

  std::vector<Thread> threads_;
  std::vector<Warp> warps_;
  SharedMemory shared_;
  ReadyQueue ready_;
  void (*body_)(void*) = nullptr;
  void* argument_ = nullptr;
  std::exception_ptr failed_;
  int live_ = 0;
  char start_token_ = 0, end_token_ = 0;

  int arrived_ = 0;  // at the block's barrier
  int predicates_ = 0;
  unsigned barrier_generation_ = 0;
  Site barrier_site_;
  char barrier_token_[2];
};

/// The calling OS thread's.
Worker& worker();

}  // namespace shardlm::emu
