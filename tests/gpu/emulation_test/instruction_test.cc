// Warp primitives, atomics and the wrappers of PTX, against what CUDA's documents say they do.
#include <gmock/gmock.h>

#include <cmath>
#include <random>

#include "tests/gpu/emulation_test/bench.h"

namespace shardlm::bench_test {
namespace {

using ::testing::HasSubstr;

template <class T>
__global__ void shuffle_kernel(T* out) {
  const auto lane = static_cast<int>(threadIdx.x);
  const T mine = static_cast<T>(lane);
  T* at = out + 6 * lane;
  at[0] = __shfl_sync(~0U, mine, 5);
  at[1] = __shfl_sync(~0U, mine, 5, 8);
  at[2] = __shfl_xor_sync(~0U, mine, 3);
  at[3] = __shfl_down_sync(~0U, mine, 4U);
  at[4] = __shfl_up_sync(~0U, mine, 4U, 16);
  at[5] = __shfl_xor_sync(~0U, mine, 16, 16);  // out of the group: one's own
}

template <class T>
void expect_shuffles() {
  const DeviceArray<T> out(6 * 32);
  ASSERT_EQ(run_block(32, shuffle_kernel<T>, out.data()), "");
  const std::vector<T> v = out.read();
  for (int lane = 0; lane < 32; ++lane) {
    const T* at = &v[static_cast<std::size_t>(6 * lane)];
    EXPECT_EQ(at[0], static_cast<T>(5));
    EXPECT_EQ(at[1], static_cast<T>(lane / 8 * 8 + 5));
    EXPECT_EQ(at[2], static_cast<T>(lane ^ 3));
    EXPECT_EQ(at[3], static_cast<T>(lane + 4 < 32 ? lane + 4 : lane));
    EXPECT_EQ(at[4], static_cast<T>(lane % 16 >= 4 ? lane - 4 : lane));
    // Lanes of the lower half would read above their group; those above read below it, as CUDA.
    EXPECT_EQ(at[5], static_cast<T>(lane < 16 ? lane : lane - 16));
  }
}

TEST(Instruction, ShufflesOfEveryType) {
  expect_shuffles<int>();
  expect_shuffles<unsigned>();
  expect_shuffles<float>();
  expect_shuffles<double>();
  expect_shuffles<long long>();
}

__global__ void vote_kernel(unsigned* out) {
  const auto lane = static_cast<int>(threadIdx.x);
  const unsigned ballot = __ballot_sync(~0U, lane % 3 == 0);
  const int any = __any_sync(~0U, lane == 31), none = __any_sync(~0U, lane == 32);
  const int all = __all_sync(~0U, lane < 32), not_all = __all_sync(~0U, lane < 31);
  const unsigned same = __match_any_sync(~0U, lane % 2);
  const unsigned sum = __reduce_add_sync(~0U, threadIdx.x);
  const int lowest = __reduce_min_sync(~0U, 3 - lane), highest = __reduce_max_sync(~0U, lane - 3);
  const unsigned bits = __reduce_xor_sync(~0U, 1U << lane);
  if (lane != 0) return;
  const unsigned values[] = {ballot,
                             static_cast<unsigned>(any),
                             static_cast<unsigned>(none),
                             static_cast<unsigned>(all),
                             static_cast<unsigned>(not_all),
                             same,
                             sum,
                             static_cast<unsigned>(-lowest),
                             static_cast<unsigned>(highest),
                             bits};
  for (int i = 0; i < 10; ++i) out[i] = values[i];
}

TEST(Instruction, VotesAndReductions) {
  const DeviceArray<unsigned> out(10);
  ASSERT_EQ(run_block(32, vote_kernel, out.data()), "");
  unsigned thirds = 0;
  for (unsigned i = 0; i < 32; i += 3) thirds |= 1U << i;
  EXPECT_EQ(out.read(), (std::vector<unsigned>{thirds, 1, 0, 1, 0, 0x55555555, 496, 28, 28, ~0U}));
}

__global__ void atomic_kernel(int* i, unsigned long long* u, float* f, unsigned* wraps) {
  GPU_SHARED(unsigned, count, [1]);
  if (threadIdx.x == 0) count[0] = 0;
  __syncthreads();
  const auto lane = static_cast<int>(threadIdx.x);
  atomicAdd(count, 1U);
  atomicAdd(&i[0], lane);
  atomicMax(&i[1], lane);
  atomicMin(&i[2], -lane);
  atomicCAS(&i[3], 0, 7);
  atomicSub(&i[4], 1);
  atomicMax(u, 1ULL << lane);
  atomicAdd(f, 0.5F);
  atomicInc(wraps, 9U);
  __syncthreads();
  if (lane == 0) atomicExch(&i[5], static_cast<int>(count[0]));
}

TEST(Instruction, Atomics) {
  emu::options().workers = 2;
  const DeviceArray<int> i(std::vector<int>(6, 0));
  const DeviceArray<unsigned long long> u(std::vector<unsigned long long>{0});
  const DeviceArray<float> f(std::vector<float>{0});
  const DeviceArray<unsigned> wraps(std::vector<unsigned>{0});
  const TestStream stream;
  gpu::launch({dim3(4), dim3(32), 0, stream}, atomic_kernel, i.data(), u.data(), f.data(),
              wraps.data());
  ASSERT_EQ(stream.finish(), cudaSuccess);
  emu::options().workers = 1;
  EXPECT_EQ(i.read(), (std::vector<int>{4 * 496, 31, -31, 7, -128, 32}));
  EXPECT_EQ(u.read()[0], 1ULL << 31);
  EXPECT_EQ(f.read()[0], 64.0F);
  EXPECT_EQ(wraps.read()[0], 8U);  // 128 steps modulo 10
}

// The last block to finish sums what all wrote: fences and an atomic order them.
__global__ void last_block_kernel(float* parts, float* sum, unsigned* done) {
  parts[blockIdx.x] = static_cast<float>(blockIdx.x);
  __threadfence();
  if (atomicAdd(done, 1U) != gridDim.x - 1) return;
  __threadfence();
  float total = 0;
  for (unsigned b = 0; b < gridDim.x; ++b) total += parts[b];
  *sum = total;
}

TEST(Instruction, FencesOrderBlocksOnSeveralThreads) {
  emu::options().workers = 2;
  const DeviceArray<float> parts(16), sum(1);
  const DeviceArray<unsigned> done(std::vector<unsigned>{0});
  const TestStream stream;
  gpu::launch({dim3(16), dim3(1), 0, stream}, last_block_kernel, parts.data(), sum.data(),
              done.data());
  ASSERT_EQ(stream.finish(), cudaSuccess);
  emu::options().workers = 1;
  EXPECT_EQ(sum.read()[0], 120.0F);
}

template <bool Wait>
__global__ void async_copy_kernel(const float* in, float* out) {
  GPU_SHARED(float4, tile, [3]);
  if (threadIdx.x == 0) {
    gpu::cp_async_16(&tile[0], in);
    gpu::cp_async_commit();
    gpu::cp_async_16_zero_fill(&tile[1], in + 4, 8);
    gpu::cp_async_16_zero_fill(&tile[2], in + 4, 0);
    gpu::cp_async_commit();
    gpu::cp_async_wait<1>();
    out[0] = tile[0].w;
    out[1] = tile[1].x;  // its group may still be under way
    if (Wait) gpu::cp_async_wait<0>();
    out[2] = tile[1].y;
    out[3] = tile[1].z;
    out[4] = tile[2].x;
  }
}

TEST(Instruction, AsynchronousCopiesArriveAtTheirWait) {
  const DeviceArray<float> in(std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8}), out(5);
  ASSERT_EQ(run_block(32, async_copy_kernel<true>, in.data(), out.data()), "");
  std::vector<float> v = out.read();
  EXPECT_EQ(v[0], 4);
  EXPECT_TRUE(std::isnan(v[1]));
  EXPECT_EQ(v[2], 6);
  EXPECT_EQ(v[3], 0);
  EXPECT_EQ(v[4], 0);
  ASSERT_EQ(run_block(32, async_copy_kernel<false>, in.data(), out.data()), "");
  v = out.read();
  EXPECT_EQ(v[0], 4);
  EXPECT_TRUE(std::isnan(v[2])) << "a forgotten wait reads NaN";
}

__global__ void misaligned_copy_kernel(const float* in) {
  GPU_SHARED(float4, tile, [1]);
  gpu::cp_async_16(&tile[0], in + 1);
}

__global__ void misaligned_load_kernel(const float* in, float* out) {
  out[0] = gpu::load_vector(in + 2).value[0];
}

TEST(Instruction, RefusesMisalignedWideAccess) {
  const DeviceArray<float> in(8), out(1);
  EXPECT_THAT(run_block(1, misaligned_copy_kernel, in.data()), HasSubstr("not aligned"));
  EXPECT_THAT(run_block(1, misaligned_load_kernel, in.data(), out.data()),
              HasSubstr("not aligned"));
}

__global__ void vector_kernel(const __half* in, __half* out) {
  gpu::Vector<__half> v = gpu::load_vector(in + 8 * threadIdx.x);
  for (auto& x : v.value) x = __float2half_rn(2 * __half2float(x));
  gpu::store_vector(out + 8 * threadIdx.x, v);
  v = gpu::load_vector_coherent(out + 8 * threadIdx.x);
  gpu::store_vector(out + 8 * (threadIdx.x + 4), v);
}

TEST(Instruction, VectorsOfSixteenBytes) {
  std::vector<__half> values;
  for (int i = 0; i < 32; ++i) values.push_back(__float2half_rn(static_cast<float>(i)));
  const DeviceArray<__half> in(values), out(64);
  ASSERT_EQ(run_block(4, vector_kernel, in.data(), out.data()), "");
  const std::vector<__half> v = out.read();
  for (std::size_t i = 0; i < 64; ++i)
    EXPECT_EQ(__half2float(v[i]), static_cast<float>(2 * (i % 32)));
}

// A [16, 16] and B [16, 8] row-major in shared memory, through ldmatrix and mma.
template <class T>
__global__ void tile_kernel(const T* a, const T* b, float* d) {
  GPU_SHARED(uint4, raw_a, [32]);
  GPU_SHARED(uint4, raw_b, [16]);
  auto* tile_a = reinterpret_cast<T*>(raw_a);
  auto* tile_b = reinterpret_cast<T*>(raw_b);
  const unsigned lane = threadIdx.x;
  for (unsigned i = lane; i < 256; i += 32) tile_a[i] = a[i];
  for (unsigned i = lane; i < 128; i += 32) tile_b[i] = b[i];
  __syncwarp();
  unsigned fa[4], fb[4];
  gpu::load_matrix_x4(fa, tile_a + 16 * (lane % 16) + 8 * (lane / 16));
  gpu::load_matrix_x4_transposed(fb, tile_b + 8 * (lane % 16));
  float sums[4] = {1, 1, 1, 1};
  const unsigned b_fragment[2] = {fb[0], fb[1]};
  gpu::mma_m16n8k16<T>(sums, fa, b_fragment);
  const unsigned g = lane / 4, t = lane % 4;
  for (unsigned i = 0; i < 4; ++i) d[8 * (g + 8 * (i / 2)) + 2 * t + i % 2] = sums[i];
}

template <class T>
void expect_tile(T (*convert)(float)) {
  std::mt19937 random(5);
  std::vector<T> a, b;
  std::vector<double> da, db;
  const auto fill = [&](std::vector<T>& x, std::vector<double>& dx, int n) {
    for (int i = 0; i < n; ++i) {
      const auto v = static_cast<float>(static_cast<int>(random() % 17) - 8);  // exact in all types
      x.push_back(convert(v));
      dx.push_back(v);
    }
  };
  fill(a, da, 256);
  fill(b, db, 128);
  const DeviceArray<T> device_a(a), device_b(b);
  const DeviceArray<float> d(128);
  ASSERT_EQ(run_block(32, tile_kernel<T>, device_a.data(), device_b.data(), d.data()), "");
  const std::vector<float> v = d.read();
  for (std::size_t i = 0; i < 16; ++i)
    for (std::size_t j = 0; j < 8; ++j) {
      double sum = 1;
      for (std::size_t k = 0; k < 16; ++k) sum += da[16 * i + k] * db[8 * k + j];
      EXPECT_EQ(v[8 * i + j], sum);
    }
}

TEST(Instruction, TensorCoreTiles) {
  expect_tile<__half>([](float x) { return __float2half_rn(x); });
  expect_tile<__nv_bfloat16>([](float x) { return __float2bfloat16_rn(x); });
}

__global__ void half_warp_mma_kernel() {
  float d[4] = {0, 0, 0, 0};
  const unsigned a[4] = {0, 0, 0, 0}, b[2] = {0, 0};
  gpu::mma_m16n8k16(d, a, b);
}

TEST(Instruction, RefusesATileOfHalfAWarp) {
  EXPECT_THAT(run_block(16, half_warp_mma_kernel), HasSubstr("32 lanes"));
}

__global__ void arithmetic_kernel(float* out) {
  const float nan = __int_as_float(0x7fffffff);
  out[0] = max(nan, 1.0F);
  out[1] = min(2.0F, nan);
  out[2] = rsqrtf(4.0F);
  out[3] = static_cast<float>(__clz(1) + __ffs(8) + __popc(7U));
  out[4] = static_cast<float>(max(3, -1) + static_cast<int>(min(4U, 9U)));
  out[5] = __saturatef(nan);
}

TEST(Instruction, ArithmeticOfTheDevice) {
  const DeviceArray<float> out(6);
  ASSERT_EQ(run_block(1, arithmetic_kernel, out.data()), "");
  EXPECT_EQ(out.read(), (std::vector<float>{1, 2, 0.5F, 38, 7, 0}));
}

// A flag in mapped host memory that the host waits for, and one that the kernel waits for.
__global__ void handshake_kernel(std::uint32_t* to_host, const unsigned long long* from_host,
                                 unsigned long long* out) {
  const std::uint64_t begin = gpu::global_timer();
  gpu::st_release_sys(to_host, 5U);
  while (gpu::ld_acquire_sys(from_host) != 9) gpu::spin_pause();
  out[0] = gpu::global_timer() - begin;
}

TEST(Instruction, FlagsBetweenHostAndKernel) {
  void* host = nullptr;
  ASSERT_EQ(cudaHostAlloc(&host, 16, cudaHostAllocMapped), cudaSuccess);
  auto* flag = static_cast<std::uint32_t*>(host);
  auto* answer = reinterpret_cast<unsigned long long*>(static_cast<char*>(host) + 8);
  *flag = 0;
  *answer = 0;
  const DeviceArray<unsigned long long> out(1);
  const TestStream stream;
  gpu::launch({dim3(1), dim3(1), 0, stream}, handshake_kernel, flag, answer, out.data());
  while (__atomic_load_n(flag, __ATOMIC_ACQUIRE) != 5U) sched_yield();
  EXPECT_EQ(cudaStreamQuery(stream), cudaErrorNotReady);
  __atomic_store_n(answer, 9ULL, __ATOMIC_RELEASE);
  ASSERT_EQ(stream.finish(), cudaSuccess);
  EXPECT_GT(out.read()[0], 0U);
  EXPECT_EQ(cudaFreeHost(host), cudaSuccess);
}

}  // namespace
}  // namespace shardlm::bench_test
