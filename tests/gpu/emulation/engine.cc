#include "tests/gpu/emulation/engine.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <mutex>
#include <new>
#include <numeric>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>

#include "tests/gpu/emulation/worker.h"

namespace shardlm::emu {
namespace {

Options from_environment() {
  Options o;
  if (const char* text = std::getenv("SHARDLM_EMU_ORDER")) {
    const std::string_view order = text;
    if (order == "reverse") {
      o.order = Order::reverse;
    } else if (order == "shuffled") {
      o.order = Order::shuffled;
    } else if (order != "forward") {
      throw Error("SHARDLM_EMU_ORDER: expected forward, reverse or shuffled");
    }
  }
  if (const char* text = std::getenv("SHARDLM_EMU_SEED"))
    o.seed = static_cast<unsigned>(std::atoi(text));
  if (const char* text = std::getenv("SHARDLM_EMU_WORKERS"))
    o.workers = std::max(1, std::atoi(text));
  return o;
}

/// The blocks of one grid, handed out to the OS threads that run them.
class Grid {
 public:
  Grid(dim3 grid, dim3 block, std::size_t dynamic_bytes, void (*body)(void*), void* argument)
      : grid_(grid),
        block_(block),
        dynamic_bytes_(dynamic_bytes),
        body_(body),
        argument_(argument),
        order_(std::size_t{grid.x} * grid.y * grid.z) {
    std::iota(order_.begin(), order_.end(), 0U);
    std::mt19937 random(options().seed);
    if (options().order == Order::reverse) std::reverse(order_.begin(), order_.end());
    if (options().order == Order::shuffled) std::shuffle(order_.begin(), order_.end(), random);
  }

  void run() {
    const auto threads = std::min(static_cast<std::size_t>(options().workers), order_.size());
    std::vector<std::thread> others;
    for (std::size_t i = 1; i < threads; ++i)
      others.emplace_back([this, i] { work(options().seed + static_cast<unsigned>(i)); });
    work(options().seed);
    for (std::thread& t : others) t.join();
    if (error_) std::rethrow_exception(error_);
  }

 private:
  void work(unsigned seed) {
    std::mt19937 random(seed);
    try {
      for (std::size_t i; (i = next_.fetch_add(1, std::memory_order_relaxed)) < order_.size();) {
        const unsigned b = order_[i];
        worker().run_block(grid_, block_,
                           {b % grid_.x, b / grid_.x % grid_.y, b / (grid_.x * grid_.y)},
                           dynamic_bytes_, body_, argument_, random);
      }
    } catch (...) {
      const std::lock_guard lock(mutex_);
      error_ = std::current_exception();
      next_ = order_.size();
    }
  }

  dim3 grid_, block_;
  std::size_t dynamic_bytes_;
  void (*body_)(void*);
  void* argument_;
  std::vector<unsigned> order_;
  std::atomic<std::size_t> next_{0};
  std::mutex mutex_;
  std::exception_ptr error_;
};

struct Registry {
  std::mutex mutex;
  std::unordered_map<const void*, KernelInfo> kernels;
};
// Never destroyed: at the end of the process a stream's thread may still be in a kernel.
Registry& registry() {
  alignas(Registry) static std::byte place[sizeof(Registry)];
  static Registry* const r = ::new (static_cast<void*>(place)) Registry;
  return *r;
}

}  // namespace

Options& options() {
  static Options o = from_environment();
  return o;
}

void sync_block(Site site) {
  const Quiet quiet;
  worker().sync_block(site);
}

int sync_block_count(int predicate, Site site) {
  const Quiet quiet;
  return worker().sync_block_count(predicate, site);
}

const Gathered& gather(unsigned mask, std::uint64_t low, std::uint64_t high, bool fence,
                       Site site) {
  const Quiet quiet;
  return worker().gather(mask, low, high, fence, site);
}

void* shared_variable(const void* key, std::size_t bytes) {
  const Quiet quiet;
  return worker().shared().variable(key, bytes);
}

void* dynamic_shared() { return worker().shared().dynamic(); }

unsigned live_lanes() { return worker().live_lanes(); }

void yield_thread() {
  const Quiet quiet;
  worker().yield();
}

std::vector<std::vector<PendingCopy>>& pending_copies() { return worker().self().copies; }

void fail(const char* what, Site site) {
  throw Error(std::string(what) + " (thread " +
              std::to_string(current != nullptr ? current->linear : -1) + ", " + site.file_name() +
              ":" + std::to_string(site.line()) + ")");
}

void run_grid(dim3 grid, dim3 block, std::size_t dynamic_shared_bytes, void (*body)(void*),
              void* argument) {
  const std::size_t threads = std::size_t{block.x} * block.y * block.z;
  if (grid.x == 0 || grid.y == 0 || grid.z == 0 || grid.y > 65535 || grid.z > 65535 ||
      threads == 0 || threads > 1024 || block.z > 64)
    throw Error("invalid launch configuration");
  Grid(grid, block, dynamic_shared_bytes, body, argument).run();
}

void register_kernel(const void* function, KernelInfo info) {
  Registry& r = registry();
  const std::lock_guard lock(r.mutex);
  r.kernels.emplace(function, std::move(info));
}

const KernelInfo* find_kernel(const void* function) {
  Registry& r = registry();
  const std::lock_guard lock(r.mutex);
  const auto it = r.kernels.find(function);
  return it == r.kernels.end() ? nullptr : &it->second;
}

}  // namespace shardlm::emu
