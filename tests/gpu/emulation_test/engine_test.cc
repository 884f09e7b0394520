// What the engine refuses, and what it makes visible.
#include <gmock/gmock.h>

#include <cmath>

#include "tests/gpu/emulation_test/bench.h"

namespace shardlm::bench_test {
namespace {

using ::testing::HasSubstr;

__global__ void divergent_barrier_kernel() {
  if (threadIdx.x < 32) {
    __syncthreads();
  } else {
    __syncthreads();
  }
}

TEST(Engine, RefusesABarrierAtTwoPlaces) {
  EXPECT_THAT(run_block(64, divergent_barrier_kernel), HasSubstr("different source lines"));
}

__global__ void mask_without_me_kernel() { __shfl_sync(0xfffffffeU, 1, 1); }

TEST(Engine, RefusesAMaskThatLacksTheCaller) {
  EXPECT_THAT(run_block(32, mask_without_me_kernel), HasSubstr("lacks the calling lane"));
}

__global__ void absent_lane_kernel() {
  if (threadIdx.x < 16) __shfl_sync(0xffffU, 1, 20);
}

TEST(Engine, RefusesAShuffleFromAnAbsentLane) {
  EXPECT_THAT(run_block(32, absent_lane_kernel), HasSubstr("did not take part"));
}

__global__ void lanes_at_two_lines_kernel() {
  if (threadIdx.x < 16) {
    __syncwarp();
  } else {
    __syncwarp();
  }
}

TEST(Engine, RefusesLanesOfOneMaskAtTwoPlaces) {
  EXPECT_THAT(run_block(32, lanes_at_two_lines_kernel), HasSubstr("different source lines"));
}

__global__ void deadlock_kernel() {
  if (threadIdx.x == 0) {
    __shfl_sync(0x3U, 1, 0);
  } else if (threadIdx.x == 1) {
    __shfl_sync(0x6U, 1, 1);
  } else {
    __syncthreads();
  }
}

TEST(Engine, NamesWhoWaitsWhereInADeadlock) {
  const std::string text = run_block(3, deadlock_kernel);
  EXPECT_THAT(text, HasSubstr("deadlock in block (0, 0, 0)"));
  EXPECT_THAT(text, HasSubstr("thread 0 waits in a warp primitive"));
  EXPECT_THAT(text, HasSubstr("thread 2 waits in __syncthreads"));
}

__global__ void early_exit_kernel(int* out) {
  if (threadIdx.x % 2 == 1) return;
  __syncthreads();  // of those that live
  out[threadIdx.x / 2] = __popc(__activemask());
}

TEST(Engine, ThreadsThatEndedAreNotWaitedFor) {
  const DeviceArray<int> out(32);
  EXPECT_EQ(run_block(64, early_exit_kernel, out.data()), "");
  EXPECT_EQ(out.read()[0], 16);
}

__global__ void fresh_shared_kernel(float* out) {
  GPU_SHARED(float, value, [32]);
  out[threadIdx.x] = value[threadIdx.x];
  value[threadIdx.x] = 1;
}

TEST(Engine, SharedMemoryStartsAsNaNInEveryBlock) {
  const DeviceArray<float> out(32);
  const TestStream stream;
  gpu::launch({dim3(2), dim3(32), 0, stream}, fresh_shared_kernel, out.data());
  ASSERT_EQ(stream.finish(), cudaSuccess);
  for (const float x : out.read()) EXPECT_TRUE(std::isnan(x));
}

__global__ void dynamic_shared_kernel(float* out) {
  GPU_DYNAMIC_SHARED(raw);
  auto* values = reinterpret_cast<float*>(raw);
  out[0] = values[7];
}

TEST(Engine, DynamicSharedMemoryStartsAsNaN) {
  const DeviceArray<float> out(1);
  const TestStream stream;
  gpu::launch({dim3(1), dim3(1), 32, stream}, dynamic_shared_kernel, out.data());
  ASSERT_EQ(stream.finish(), cudaSuccess);
  EXPECT_TRUE(std::isnan(out.read()[0]));
}

__global__ void too_much_static_kernel() {
  GPU_SHARED(char, a, [40 * 1024]);
  GPU_SHARED(char, b, [9 * 1024]);
  a[0] = b[0];
}

__global__ void much_shared_kernel() {
  GPU_SHARED(char, a, [40 * 1024]);
  a[0] = 0;
}

TEST(Engine, RefusesMoreSharedMemoryThanABlockHas) {
  EXPECT_THAT(run_block(1, too_much_static_kernel), HasSubstr("48 KB"));
  const TestStream stream;
  gpu::allow_dynamic_shared(much_shared_kernel, 200 * 1024);
  gpu::launch({dim3(1), dim3(1), 187 * 1024, stream}, much_shared_kernel);
  EXPECT_EQ(stream.finish(), cudaSuccess);  // 227 KB: exactly all
  gpu::launch({dim3(1), dim3(1), 188 * 1024, stream}, much_shared_kernel);
  EXPECT_NE(stream.finish(), cudaSuccess);
  EXPECT_THAT(doubles::take_async_error(), HasSubstr("227 KB"));
}

__global__ void throwing_kernel() { __trap(); }

TEST(Engine, ATrapFailsTheStream) {
  EXPECT_THAT(run_block(32, throwing_kernel), HasSubstr("__trap"));
}

__global__ void geometry_kernel(unsigned* out) {
  const unsigned block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
  const unsigned thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  const unsigned threads = blockDim.x * blockDim.y * blockDim.z;
  atomicAdd(&out[block * threads + thread], 1U);
}

TEST(Engine, RunsEveryThreadOfEveryBlockOnce) {
  for (const int workers : {1, 3}) {
    for (const emu::Order order :
         {emu::Order::forward, emu::Order::reverse, emu::Order::shuffled}) {
      const ScopedOrder scope(order);
      emu::options().workers = workers;
      const DeviceArray<unsigned> out(std::vector<unsigned>(2 * 3 * 2 * 3 * 5 * 2, 0));
      const TestStream stream;
      gpu::launch({dim3(2, 3, 2), dim3(3, 5, 2), 0, stream}, geometry_kernel, out.data());
      ASSERT_EQ(stream.finish(), cudaSuccess);
      for (const unsigned n : out.read()) EXPECT_EQ(n, 1U);
    }
  }
}

__global__ void votes_kernel(int* out) {
  const int t = static_cast<int>(threadIdx.x);
  out[0] = __syncthreads_count(t < 5);
  out[1] = __syncthreads_or(t == 40);
  out[2] = __syncthreads_or(t == 99);
  out[3] = __syncthreads_and(t < 64);
  out[4] = __syncthreads_and(t != 7);
}

TEST(Engine, BlockVotes) {
  const DeviceArray<int> out(5);
  EXPECT_EQ(run_block(1, votes_kernel, out.data()), "");
  EXPECT_EQ(out.read(), (std::vector<int>{1, 0, 0, 1, 1}));
#if !defined(SHARDLM_EMU_TSAN)  // all threads write the same cell: a race, though of equal values
  EXPECT_EQ(run_block(64, votes_kernel, out.data()), "");
  EXPECT_EQ(out.read(), (std::vector<int>{5, 1, 0, 1, 0}));
#endif
}

}  // namespace
}  // namespace shardlm::bench_test
