// Running one block: its threads, their fibers, who goes next.
#include "tests/gpu/emulation/worker.h"

#include <cstring>

constinit thread_local uint3 threadIdx{}, blockIdx{};
constinit thread_local dim3 blockDim{}, gridDim{};

namespace shardlm::emu {

constinit thread_local Context* current = nullptr;

namespace {

constexpr std::size_t kStackBytes = 128 * 1024;

}  // namespace

Worker& worker() {
  thread_local Worker w;
  return w;
}

void SharedMemory::reset(std::size_t dynamic_bytes) {
  variables_.clear();
  static_bytes_ = 0;
  dynamic_bytes_ = dynamic_bytes;
  // Not make_unique: kernels are not given zeros. NaN stands for "never written".
  dynamic_ = dynamic_bytes > 0 ? std::make_unique_for_overwrite<char[]>(dynamic_bytes) : nullptr;
  if (dynamic_bytes > 0) std::memset(dynamic_.get(), 0xff, dynamic_bytes);
}

void* SharedMemory::variable(const void* key, std::size_t bytes) {
  for (Variable& v : variables_)
    if (v.key == key) return v.memory.get();
  static_bytes_ += bytes;
  if (static_bytes_ > kStaticSharedBytes)
    throw Error("more than 48 KB of shared memory in variables of fixed size");
  if (static_bytes_ + dynamic_bytes_ > kSharedBytes)
    throw Error("more than 227 KB of shared memory, fixed and dynamic together");
  variables_.push_back({key, std::make_unique_for_overwrite<char[]>(bytes)});
  std::memset(variables_.back().memory.get(), 0xff, bytes);
  return variables_.back().memory.get();
}

void Worker::set_up_threads(dim3 block) {
  const auto n = static_cast<std::size_t>(block.x) * block.y * block.z;
  threads_.clear();
  threads_.resize(n);
  warps_.clear();
  warps_.resize((n + 31) / 32);
  for (std::size_t i = 0; i < n; ++i) {
    Thread& t = threads_[i];
    t.linear = static_cast<int>(i), t.lane = t.linear % 32, t.warp = t.linear / 32;
    const auto u = static_cast<unsigned>(i);
    t.index = {u % block.x, u / block.x % block.y, u / (block.x * block.y)};
    warp_of(t).live |= 1U << t.lane;
  }
  live_ = static_cast<int>(n);
}

void Worker::run_block(dim3 grid, dim3 block, uint3 index, std::size_t dynamic_bytes,
                       void (*body)(void*), void* argument, std::mt19937& random) {
  body_ = body, argument_ = argument, failed_ = nullptr;
  arrived_ = 0, predicates_ = 0, used_ = 0;
  set_up_threads(block);
  shared_.reset(dynamic_bytes);
  ready_.fill(live_, random);
  while (kOneFiberPerThread && pool_.size() < threads_.size()) add_fiber();
  blockIdx = index, blockDim = block, gridDim = grid;
  main_.adopt();
  release(&start_token_);
  resume_next(main_);
  current = nullptr;
  acquire(&end_token_);
  if (live_ > 0 || failed_) report_failure(index);
}

void Worker::report_failure(uint3 index) {
  std::string text = "deadlock in block (" + std::to_string(index.x) + ", " +
                     std::to_string(index.y) + ", " + std::to_string(index.z) + "):";
  for (const Thread& t : threads_)
    if (!t.done && t.waiting != Waiting::no && text.size() < 600)
      text += "\n  thread " + std::to_string(t.linear) + " waits in " +
              (t.waiting == Waiting::barrier ? "__syncthreads" : "a warp primitive") + " at line " +
              std::to_string(t.site.line());
  // Suspended frames are abandoned; ThreadSanitizer does not allow their fibers to end.
  for (auto& fiber : pool_)
    if (kOneFiberPerThread) fiber.release()->release_from(&end_token_);
  acquire(&end_token_);
  pool_.clear();
  free_.clear();
  if (failed_) std::rethrow_exception(std::exchange(failed_, nullptr));
  throw Error(text);
}

void Worker::suspend(Waiting why, Site site) {
  Thread& me = self();
  me.waiting = why;
  me.site = site;
  resume_next(*me.fiber);
  continue_as(me);
}

void Worker::yield() {
  if (ready_.empty()) return;
  Thread& me = self();
  ready_.push_last(me.linear);
  resume_next(*me.fiber);
  continue_as(me);
}

void Worker::continue_as(Thread& thread) {
  current = &thread;
  threadIdx = thread.index;
}

void Worker::resume_next(Fiber& from) {
  if (Fiber* to = pick(from)) from.switch_to(*to);
}

Fiber* Worker::pick(Fiber& from) {
  const Quiet quiet;
  const int next = failed_ ? -1 : ready_.pop();
  if (next < 0) return &from == &main_ ? nullptr : &main_;
  Thread& t = threads_[static_cast<std::size_t>(next)];
  if (t.fiber == nullptr) {
    t.fiber = take_fiber();
    t.fiber->user = &t;
  }
  return t.fiber == &from ? nullptr : t.fiber;
}

Fiber* Worker::take_fiber() {
  if (kOneFiberPerThread) {
    if (used_ == pool_.size()) add_fiber();
    return pool_[used_++].get();
  }
  if (free_.empty()) {
    add_fiber();
    return pool_.back().get();
  }
  Fiber* fiber = free_.back();
  free_.pop_back();
  return fiber;
}

void Worker::add_fiber() {
  pool_.push_back(std::make_unique<Fiber>(&Worker::fiber_main, kStackBytes));
}

void Worker::fiber_main(Fiber* self) { worker().fiber_loop(self); }

void Worker::fiber_loop(Fiber* self) {
  quiet_begin();
  for (;;) {
    Thread& thread = *static_cast<Thread*>(self->user);
    run_thread(thread);
    finish_thread(thread);
    if (!kOneFiberPerThread) free_.push_back(self);
    quiet_end();
    resume_next(*self);
    quiet_begin();
  }
}

void Worker::run_thread(Thread& thread) {
  continue_as(thread);
  acquire(&start_token_);
  quiet_end();
  try {
    body_(argument_);
  } catch (...) {
    failed_ = std::current_exception();
  }
  quiet_begin();
  release(&end_token_);
}

void Worker::finish_thread(Thread& thread) {
  thread.done = true;
  thread.waiting = Waiting::no;
  --live_;
  Warp& warp = warp_of(thread);
  warp.live &= ~(1U << thread.lane);
  if (failed_) return;
  // Whoever waits for all that live may be waiting for nobody now.
  if (arrived_ > 0 && arrived_ == live_) open_barrier();
  for (auto& point : warp.points)
    if (point->arrived != 0 && point->arrived == (point->mask & warp.live))
      complete(*point, thread.warp, -1);
}

}  // namespace shardlm::emu
