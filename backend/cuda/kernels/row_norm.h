// What becomes of one row of the residual stream, for kernels: LayerNorm's statistics, and the
// residual update with a sum of addends that the caller supplies (from this device's memory, or
// from that of other ranks).
#pragma once

#include <cstdint>

#include "backend/cuda/kernels/chunk.h"

namespace shardlm::cuda {

/// A block that works on a row has at most so many threads; beyond kRowThreads * kRowHeld elements
/// a row is read again from memory instead of being held in registers.
inline constexpr unsigned kRowThreads = 1024;
inline constexpr int kRowHeld = 8;

/// LayerNorm of a row: where its vectors [n] and its result stand.
struct RowNorm {
  const float* weight = nullptr;
  const float* bias = nullptr;
  float epsilon = 0;
  void* out = nullptr;  ///< row of n elements; null: no norm is wanted
  DType out_dtype = DType::f32;
};

/// Sum of x over the threads of the block, the same bits in each. `partial` is shared memory, one
/// float a warp, that no thread reads or writes until all have left; every thread calls this.
__device__ __forceinline__ float sum_over_block(float x, float (&partial)[kRowThreads / 32]) {
#pragma unroll
  for (int lanes = 16; lanes > 0; lanes /= 2) x += __shfl_xor_sync(~0U, x, lanes);
  if (blockDim.x == 32) return x;
  const unsigned lane = threadIdx.x % 32, n_warps = blockDim.x / 32;
  if (lane == 0) partial[threadIdx.x / 32] = x;
  __syncthreads();
  x = lane < n_warps ? partial[lane] : 0.0F;
#pragma unroll
  for (int lanes = 16; lanes > 0; lanes /= 2) x += __shfl_xor_sync(~0U, x, lanes);
  return x;
}

/// Normalises one row of n elements: mean, then the mean square of the differences, in float32.
/// Called by all threads of a one-dimensional block of whole warps, at most kRowThreads, once a row
/// (any number of rows one after another). Elements are taken N (4 or 8) at a time:
/// first(i, float (&values)[N]) makes those from i on, of which n - i exist and the others are 0;
/// it is called once each. If the row does not fit into the registers, again(i, values) makes them
/// once more, by the same thread.
template <int N, class First, class Again>
__device__ __forceinline__ void normalize_row(std::int64_t n, const RowNorm& norm, bool vectors,
                                              const First& first, const Again& again) {
  constexpr int kChunks = kRowHeld / N;
  // Two arrays by turns: between two uses of one lies the other's barrier.
  GPU_SHARED(float, sums, [kRowThreads / 32]);
  GPU_SHARED(float, squares, [kRowThreads / 32]);
  const std::int64_t begin = std::int64_t{threadIdx.x} * N, step = std::int64_t{blockDim.x} * N;
  const std::int64_t held = step * kChunks;
  float values[kChunks][N], others[N];
  float sum = 0;
#pragma unroll
  for (int c = 0; c < kChunks; ++c) {
    const std::int64_t i = begin + c * step;
    if (i >= n) continue;
    first(i, values[c]);
    for (float value : values[c]) sum += value;
  }
  for (std::int64_t i = begin + held; i < n; i += step) {
    first(i, others);
    for (float value : others) sum += value;
  }
  if (norm.out == nullptr) return;
  const float mean = sum_over_block(sum, sums) / static_cast<float>(n);

  float square = 0;
  const auto add_squares = [&](std::int64_t i, const float(&chunk)[N]) {
#pragma unroll
    for (int e = 0; e < N; ++e) {
      const float difference = i + e < n ? chunk[e] - mean : 0.0F;
      square = fmaf(difference, difference, square);
    }
  };
#pragma unroll
  for (int c = 0; c < kChunks; ++c) {
    if (begin + c * step < n) add_squares(begin + c * step, values[c]);
  }
  for (std::int64_t i = begin + held; i < n; i += step) {
    again(i, others);
    add_squares(i, others);
  }
  const float variance = sum_over_block(square, squares) / static_cast<float>(n);
  const float scale = 1.0F / sqrtf(variance + norm.epsilon);

  const auto put = [&](std::int64_t i, float(&chunk)[N]) {
    float weight[N], bias[N];
    load_chunk(norm.weight + i, n - i, vectors, weight);
    load_chunk(norm.bias + i, n - i, vectors, bias);
#pragma unroll
    for (int e = 0; e < N; ++e) chunk[e] = fmaf((chunk[e] - mean) * scale, weight[e], bias[e]);
    store_chunk(chunk, n - i, vectors, norm.out_dtype, norm.out, i);
  };
#pragma unroll
  for (int c = 0; c < kChunks; ++c) {
    if (begin + c * step < n) put(begin + c * step, values[c]);
  }
  for (std::int64_t i = begin + held; i < n; i += step) {
    again(i, others);
    put(i, others);
  }
}

/// residual[i] += addends(i) + bias[i], in this order; then norm.out = LayerNorm(residual), unless
/// norm.out is null. For whole blocks, as normalize_row. addends(i, float (&sum)[N]) makes the
/// addends' sum for the elements from i on, 0 where i + e >= n. `bias` may be null. `vectors`:
/// every pointer is aligned to 16 bytes.
template <int N, class Addends>
__device__ __forceinline__ void update_row(float* residual, const float* bias, std::int64_t n,
                                           const RowNorm& norm, bool vectors,
                                           const Addends& addends) {
  const auto again = [&](std::int64_t i, float(&values)[N]) {
    load_chunk(residual + i, n - i, vectors, values);
  };
  const auto first = [&](std::int64_t i, float(&values)[N]) {
    float sum[N];
    addends(i, sum);
    if (bias != nullptr) {
      float add[N];
      load_chunk(bias + i, n - i, vectors, add);
#pragma unroll
      for (int e = 0; e < N; ++e) sum[e] += add[e];
    }
    load_chunk(residual + i, n - i, vectors, values);
#pragma unroll
    for (int e = 0; e < N; ++e) values[e] += sum[e];
    store_chunk(values, n - i, vectors, residual + i);
  };
  normalize_row<N>(n, norm, vectors, first, again);
}

/// Threads of a block for rows of n elements taken N at a time.
inline unsigned row_threads(std::int64_t n, int chunk) {
  return threads_for((n + chunk - 1) / chunk, kRowThreads);
}

}  // namespace shardlm::cuda
