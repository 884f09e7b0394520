// The engine's interface: CUDA's threads as fibers. One OS thread runs one block at a time; a CUDA
// thread suspends in __syncthreads and in warp primitives, and the switch goes straight to the next
// ready one. What CUDA leaves undefined and the engine can see, it refuses with an Error that names
// the source line; what it cannot see, it makes visible: shared memory starts as NaN, asynchronous
// copies arrive at the last moment, and the order of threads and blocks can be changed.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <source_location>
#include <stdexcept>
#include <vector>

namespace shardlm::emu {

using Site = std::source_location;

/// A kernel did what CUDA forbids. In a double's stream it becomes that stream's sticky error.
struct Error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Where the running CUDA thread stands in its block.
struct Context {
  uint3 index{};
  int linear = 0, lane = 0, warp = 0;
};
extern constinit thread_local Context* current;  // set at every switch

/// In which order ready threads (and blocks) run. A race is one that shows in some order: reverse
/// runs whoever woke last, so that one warp gets far ahead of the others; shuffled picks at random.
enum class Order { forward, reverse, shuffled };
struct Options {
  using enum Order;
  Order order = Order::forward;  ///< SHARDLM_EMU_ORDER=forward|reverse|shuffled
  unsigned seed = 1;             ///< SHARDLM_EMU_SEED, of shuffled
  int workers = 1;               ///< SHARDLM_EMU_WORKERS: OS threads, each runs whole blocks
};
/// Read once from the environment; tests may change them while no kernel runs.
Options& options();

/// The most shared memory of a block on sm_90, and the most of it without asking
/// (cudaFuncSetAttribute) or in fixed-size variables; in bytes.
inline constexpr std::size_t kSharedBytes = 227 * 1024, kStaticSharedBytes = 48 * 1024;

/// What the lanes of a warp deposited at one meeting, 16 bytes a lane.
struct Gathered {
  std::uint64_t value[32][2];
  unsigned present;
};

void sync_block(Site);
/// How many threads of the block came with a `predicate` other than zero.
int sync_block_count(int predicate, Site);
/// Every warp primitive: each lane of `mask` deposits two words and sees those of all. With `fence`
/// it also orders memory (__syncwarp does, shuffles do not). The result stays valid through the
/// next two meetings of the same mask.
const Gathered& gather(unsigned mask, std::uint64_t low, std::uint64_t high, bool fence, Site);
/// The block's variable of this key, NaN-filled when the block first asks for it.
void* shared_variable(const void* key, std::size_t bytes);
void* dynamic_shared();
unsigned live_lanes();
/// In a loop that waits for memory: lets the block's other threads run.
void yield_thread();
[[noreturn]] void fail(const char* what, Site);

/// Asynchronous copies of the running thread: deferred to the wait for their group, the latest
/// moment that the hardware may perform them, so that a forgotten wait reads NaN.
struct PendingCopy {
  void* to;
  const void* from;
  unsigned bytes, zeros;  ///< bytes are copied, zeros follow them
};
std::vector<std::vector<PendingCopy>>& pending_copies();  // back() is the open group

/// Runs body(argument) as every thread of the grid; throws the first Error.
void run_grid(dim3 grid, dim3 block, std::size_t dynamic_shared_bytes, void (*body)(void*),
              void* argument);

/// How the C entry point cudaLaunchKernelExC copies a kernel's arguments and calls it.
struct KernelInfo {
  std::vector<std::size_t> sizes;  ///< of the parameters, in bytes
  void (*invoke)(const void* function, void** arguments) = nullptr;
};
void register_kernel(const void* function, KernelInfo info);
const KernelInfo* find_kernel(const void* function);

}  // namespace shardlm::emu
