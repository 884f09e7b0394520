// Planted races: what each order of threads shows, and what the sanitizers see.
#include <gmock/gmock.h>

#include <cmath>

#include "tests/gpu/emulation_test/bench.h"

namespace shardlm::bench_test {
namespace {

// Each thread reads what its right neighbour wrote, with or without the barrier between.
template <bool Barrier>
__global__ void rotate_kernel(float* out) {
  GPU_SHARED(float, value, [64]);
  value[threadIdx.x] = static_cast<float>(threadIdx.x);
  if (Barrier) __syncthreads();
  out[threadIdx.x] = value[(threadIdx.x + 1) % 64];
}

// The thread that follows is right; a first value that is read before the barrier is overwritten.
template <bool Barrier>
__global__ void reuse_kernel(float* out) {
  GPU_SHARED(float, value, [1]);
  if (threadIdx.x == 0) value[0] = 1;
  __syncthreads();
  const float first = value[0];
  if (Barrier) __syncthreads();
  if (threadIdx.x == 0) value[0] = 2;
  __syncthreads();
  out[threadIdx.x] = first + value[0];
}

int wrong_values(void (*kernel)(float*), bool rotated, emu::Order order) {
  const ScopedOrder scope(order, 3);
  const DeviceArray<float> out(64);
  EXPECT_EQ(run_block(64, kernel, out.data()), "");
  int wrong = 0;
  const std::vector<float> values = out.read();
  for (std::size_t i = 0; i < 64; ++i) {
    const float expected = rotated ? static_cast<float>((i + 1) % 64) : 3.0F;
    if (!(values[i] == expected)) ++wrong;
  }
  return wrong;
}

constexpr emu::Order kOrders[] = {emu::Order::forward, emu::Order::reverse, emu::Order::shuffled};

TEST(Race, RightKernelsAreRightInEveryOrder) {
  for (const emu::Order order : kOrders) {
    EXPECT_EQ(wrong_values(rotate_kernel<true>, true, order), 0);
    EXPECT_EQ(wrong_values(reuse_kernel<true>, false, order), 0);
  }
}

#if !defined(SHARDLM_EMU_TSAN)

TEST(Race, AMissingBarrierAfterWritingShowsInEveryOrder) {
  for (const emu::Order order : kOrders)
    EXPECT_GT(wrong_values(rotate_kernel<false>, true, order), 0);
}

// The reason for three orders: who runs first decides.
TEST(Race, AMissingBarrierBeforeReuseShowsInSomeOrderOnly) {
  EXPECT_GT(wrong_values(reuse_kernel<false>, false, emu::Order::forward), 0);
  EXPECT_EQ(wrong_values(reuse_kernel<false>, false, emu::Order::reverse), 0);
}

#else

void run_and_exit(void (*kernel)(float*)) {
  const DeviceArray<float> out(64);
  run_block(64, kernel, out.data());
  std::exit(0);  // ThreadSanitizer makes it 66 if it saw a race
}

TEST(Race, ThreadSanitizerSeesMissingBarriers) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(run_and_exit(rotate_kernel<false>), ::testing::ExitedWithCode(66), "data race");
  EXPECT_EXIT(run_and_exit(reuse_kernel<false>), ::testing::ExitedWithCode(66), "data race");
  EXPECT_EXIT(run_and_exit(rotate_kernel<true>), ::testing::ExitedWithCode(0), "");
}

// Two streams, one buffer; the wait between them is there or not.
void two_streams(bool wait, bool graph) {
  const DeviceArray<float> value(4);
  const TestStream first, second;
  const TestEvent forked, written, joined;
  if (graph) {
    cudaStreamBeginCapture(first, cudaStreamCaptureModeThreadLocal);
    cudaEventRecord(forked, first);
    cudaStreamWaitEvent(second, forked, 0);
  }
  cudaMemsetAsync(value.data(), 0, 16, first);
  cudaEventRecord(written, first);
  if (wait) cudaStreamWaitEvent(second, written, 0);
  cudaMemsetAsync(value.data(), 1, 16, second);
  cudaGraphExec_t exec = nullptr;
  if (graph) {
    cudaEventRecord(joined, second);
    cudaStreamWaitEvent(first, joined, 0);
    cudaGraph_t captured = nullptr;
    GPU_CHECK(cudaStreamEndCapture(first, &captured));
    GPU_CHECK(cudaGraphInstantiate(&exec, captured, 0));
    GPU_CHECK(cudaGraphLaunch(exec, first));
    cudaGraphDestroy(captured);
  }
  first.finish();
  second.finish();
  if (exec != nullptr) cudaGraphExecDestroy(exec);
  std::exit(0);
}

TEST(Race, ThreadSanitizerSeesAMissingEventWait) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(two_streams(false, false), ::testing::ExitedWithCode(66), "data race");
  EXPECT_EXIT(two_streams(true, false), ::testing::ExitedWithCode(0), "");
}

TEST(Race, ThreadSanitizerSeesAMissingEdgeOfAGraph) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(two_streams(false, true), ::testing::ExitedWithCode(66), "data race");
  EXPECT_EXIT(two_streams(true, true), ::testing::ExitedWithCode(0), "");
}

// A copy into pinned memory is asynchronous: who reads it must have waited.
void read_pinned(bool wait) {
  const DeviceArray<float> value(std::vector<float>(1024, 1));
  void* pinned = nullptr;
  GPU_CHECK(cudaHostAlloc(&pinned, 4096, cudaHostAllocDefault));
  {
    const TestStream stream;
    cudaMemcpyAsync(pinned, value.data(), 4096, cudaMemcpyDeviceToHost, stream);
    if (wait) stream.finish();
    const volatile float seen = *static_cast<float*>(pinned);
    static_cast<void>(seen);
    stream.finish();
  }
  cudaFreeHost(pinned);
  std::exit(0);
}

TEST(Race, ThreadSanitizerSeesAReadBeforeTheCopyWasWaitedFor) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(read_pinned(false), ::testing::ExitedWithCode(66), "data race");
  EXPECT_EXIT(read_pinned(true), ::testing::ExitedWithCode(0), "");
}

#endif

#if defined(SHARDLM_EMU_ASAN)

__global__ void overflow_kernel(int past) {
  GPU_SHARED(float, value, [8]);
  float* p = value;
  p[past] = 0;
}

__global__ void global_overflow_kernel(float* p, int past) { p[past] = 0; }

TEST(Race, AddressSanitizerSeesOverflows) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(run_block(1, overflow_kernel, 8), "heap-buffer-overflow");
  const DeviceArray<float> memory(3);
  EXPECT_EQ(run_block(1, global_overflow_kernel, memory.data(), 2), "");
  EXPECT_DEATH(run_block(1, global_overflow_kernel, memory.data(), 3), "use-after-poison");
}

#endif

}  // namespace
}  // namespace shardlm::bench_test
