#include <algorithm>

#include "backend/cuda/kernels/attention.h"
#include "backend/cuda/kernels/attention_math.h"
#include "backend/cuda/kernels/chunk.h"

namespace shardlm::cuda {
namespace {

constexpr int kThreads = 128, kWarps = kThreads / 32;
constexpr int kKeysAtOnce = 4;  // of one group of lanes: loads in flight

struct Decode {
  MatrixView q;
  AttentionBatch batch;
  KvView cache;
  float scale;
  std::int64_t max_runs;
  int lanes_per_key;  ///< power of two
  bool q_vectors;
  float* sums;    ///< [row][head][run][head_dim]: of 2^(score - max) value
  float* totals;  ///< [row][head][run][2]: max, sum of 2^(score - max)
  MatrixView out;
};

/// Keys that row `row` attends to, and where they stand; none for a padding row.
struct RowKeys {
  std::int32_t count = 0;
  const std::int32_t* blocks = nullptr;
};
__device__ __forceinline__ RowKeys keys_of_row(const AttentionBatch& batch, std::int64_t row) {
  const std::int32_t sequence = batch.row_sequence[row];
  if (sequence < 0) return {};
  const SequenceSlot slot = batch.sequences[sequence];
  return {static_cast<std::int32_t>(slot.start + (row - slot.first_row) + 1),
          batch.blocks + slot.block_table_offset};
}

__device__ __forceinline__ std::int32_t runs_of(std::int32_t n_keys) {
  return (n_keys + kDecodeKeys - 1) / kDecodeKeys;
}

/// Softmax over some keys, in pieces: what one lane holds of it.
template <int P, int N>
struct Softmax {
  float max = minus_infinity(), total = 0;
  float sum[P][N] = {};

  __device__ __forceinline__ void raise_max(float new_max) {
    const float factor = rescale(max, new_max);
    max = new_max;
    total *= factor;
#pragma unroll
    for (auto& piece : sum) {
#pragma unroll
      for (float& element : piece) element *= factor;
    }
  }
};

/// The keys [begin, end) of one row and head, by groups of `lanes_per_key` lanes: each takes keys
/// of its own and each lane P pieces of N elements of them. All lanes of a warp call this. With
/// `Vectors` nothing that is loaded depends on a condition, so that many loads are on their way at
/// once: where there is no key or element left, one that there is counts for nothing.
template <class T, bool Vectors, int P, int N>
__device__ __forceinline__ void attend(const Decode& work, const RowKeys& keys, std::int64_t head,
                                       const float (&query)[P][N], std::int32_t begin,
                                       std::int32_t end, Softmax<P, N>& state) {
  const int lanes = work.lanes_per_key, n_groups = kThreads / lanes;
  const int lane = static_cast<int>(threadIdx.x) % lanes;
  const int group = static_cast<int>(threadIdx.x) / lanes;
  const auto head_dim = static_cast<int>(work.cache.head_dim);
  for (std::int32_t first = begin; first < end; first += n_groups * kKeysAtOnce) {
    float key[kKeysAtOnce][P][N], value[kKeysAtOnce][P][N];
#pragma unroll
    for (int u = 0; u < kKeysAtOnce; ++u) {
      const std::int32_t position = min(first + u * n_groups + group, end - 1);
      const std::int64_t at = token_index(work.cache, keys.blocks, head, position);
#pragma unroll
      for (int p = 0; p < P; ++p) {
        int i = (p * lanes + lane) * N;
        if (Vectors) i = min(i, head_dim - N);
        const int count = Vectors ? N : head_dim - i;
        load_chunk(static_cast<const T*>(work.cache.keys) + at + i, count, Vectors, key[u][p]);
        load_chunk(static_cast<const T*>(work.cache.values) + at + i, count, Vectors, value[u][p]);
      }
    }
    float score[kKeysAtOnce], max = state.max;
#pragma unroll
    for (int u = 0; u < kKeysAtOnce; ++u) {
      float dot = 0;
#pragma unroll
      for (int p = 0; p < P; ++p) {
#pragma unroll
        for (int e = 0; e < N; ++e) dot = fmaf(query[p][e], key[u][p][e], dot);
      }
      for (int other = lanes / 2; other > 0; other /= 2) dot += __shfl_xor_sync(~0U, dot, other);
      score[u] = first + u * n_groups + group < end ? dot : minus_infinity();
      max = fmaxf(max, score[u]);
    }
    state.raise_max(max);
#pragma unroll
    for (int u = 0; u < kKeysAtOnce; ++u) {
      const bool exists = first + u * n_groups + group < end;
      const float weight = exists ? exp2f(score[u] - max) : 0.0F;
      state.total += weight;
#pragma unroll
      for (int p = 0; p < P; ++p) {
#pragma unroll
        for (int e = 0; e < N; ++e) {
          state.sum[p][e] = fmaf(weight, value[u][p][e], state.sum[p][e]);
        }
      }
    }
  }
}

/// Joins the groups of a warp: afterwards each group holds all of the warp's keys.
template <int P, int N>
__device__ __forceinline__ void join_groups(int lanes, Softmax<P, N>& state) {
  for (int other = lanes; other < 32; other *= 2) {
    state.raise_max(fmaxf(state.max, __shfl_xor_sync(~0U, state.max, other)));
    state.total += __shfl_xor_sync(~0U, state.total, other);
#pragma unroll
    for (auto& piece : state.sum) {
#pragma unroll
      for (float& element : piece) element += __shfl_xor_sync(~0U, element, other);
    }
  }
}

/// Grid: rows, heads, splits. A block takes every n_splits-th run of its row's keys.
template <class T, int P, bool Vectors>
__global__ void __launch_bounds__(kThreads) decode_kernel(Decode work) {
  constexpr int N = kChunk<T>;
  GPU_SHARED(float, warp_sum, [kWarps][kMaxHeadDim]);
  GPU_SHARED(float, warp_max, [kWarps]);
  GPU_SHARED(float, warp_total, [kWarps]);
  const std::int64_t row = blockIdx.x, head = blockIdx.y;
  const auto head_dim = static_cast<int>(work.cache.head_dim);
  const RowKeys keys = keys_of_row(work.batch, row);
  const std::int32_t n_runs = runs_of(keys.count);
  if (n_runs > work.max_runs) return;  // join_kernel reports it

  const int lanes = work.lanes_per_key, lane = static_cast<int>(threadIdx.x) % lanes;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  float query[P][N];
#pragma unroll
  for (int p = 0; p < P; ++p) {
    const std::int64_t i = (std::int64_t{p} * lanes + lane) * N;
    load_chunk(work.q.dtype, work.q.data, row * work.q.stride + head * head_dim + i, head_dim - i,
               work.q_vectors, query[p]);
#pragma unroll
    for (float& element : query[p]) element *= work.scale * kLog2E;
  }

  for (auto run = static_cast<std::int32_t>(blockIdx.z); run < n_runs;
       run += static_cast<std::int32_t>(gridDim.z)) {
    Softmax<P, N> state;
    const std::int32_t begin = run * kDecodeKeys;
    attend<T, Vectors>(work, keys, head, query, begin, min(begin + kDecodeKeys, keys.count), state);
    join_groups(lanes, state);
    if (static_cast<int>(threadIdx.x) % 32 < lanes) {
#pragma unroll
      for (int p = 0; p < P; ++p) {
        const int i = (p * lanes + lane) * N;
#pragma unroll
        for (int e = 0; e < N; ++e) {
          if (i + e < head_dim) warp_sum[warp][i + e] = state.sum[p][e];
        }
      }
      if (lane == 0) {
        warp_max[warp] = state.max;
        warp_total[warp] = state.total;
      }
    }
    __syncthreads();
    float max = minus_infinity(), total = 0, factor[kWarps];
    for (const float of_warp : warp_max) max = fmaxf(max, of_warp);
#pragma unroll
    for (int w = 0; w < kWarps; ++w) {
      factor[w] = rescale(warp_max[w], max);
      total = fmaf(warp_total[w], factor[w], total);
    }
    const std::int64_t at = (row * work.cache.n_head + head) * work.max_runs + run;
    for (int i = static_cast<int>(threadIdx.x); i < head_dim; i += kThreads) {
      float sum = 0;
#pragma unroll
      for (int w = 0; w < kWarps; ++w) sum = fmaf(warp_sum[w][i], factor[w], sum);
      work.sums[at * head_dim + i] = sum;
    }
    if (threadIdx.x == 0) {
      work.totals[2 * at] = max;
      work.totals[2 * at + 1] = total;
    }
    __syncthreads();
  }
}

/// Grid: rows, heads. Joins a row's runs in their order; a thread an element.
template <class T>
__global__ void join_kernel(Decode work) {
  const std::int64_t row = blockIdx.x, head = blockIdx.y, head_dim = work.cache.head_dim;
  const RowKeys keys = keys_of_row(work.batch, row);
  const std::int64_t first = (row * work.cache.n_head + head) * work.max_runs;
  const std::int32_t n_runs = runs_of(keys.count);
  T* out = static_cast<T*>(work.out.data) + row * work.out.stride + head * head_dim;
  for (std::int64_t i = threadIdx.x; i < head_dim; i += blockDim.x) {
    float max = minus_infinity(), total = 0, sum = 0;
    if (n_runs > work.max_runs) sum = NAN;  // more keys than the caller made room for
    for (std::int64_t run = first; run < first + min(std::int64_t{n_runs}, work.max_runs); ++run) {
      const float run_max = work.totals[2 * run], new_max = fmaxf(max, run_max);
      const float old_factor = rescale(max, new_max), factor = rescale(run_max, new_max);
      total = fmaf(work.totals[2 * run + 1], factor, total * old_factor);
      sum = fmaf(work.sums[run * head_dim + i], factor, sum * old_factor);
      max = new_max;
    }
    from_float(keys.count == 0 ? 0.0F : sum / total, out[i]);
  }
}

std::int64_t max_runs(std::int64_t max_tokens) {
  return std::max<std::int64_t>(1, (max_tokens + kDecodeKeys - 1) / kDecodeKeys);
}

/// Lanes that share a key: the smallest power of two that holds it in pieces of `elements`.
int lanes_for(std::int64_t head_dim, int elements) {
  int lanes = 1;
  while (lanes < 32 && lanes * elements < head_dim) lanes *= 2;
  return lanes;
}

template <class T, int P>
void launch_pieces(const gpu::Launch& launch, const Decode& work, bool vectors) {
  gpu::launch(launch, vectors ? decode_kernel<T, P, true> : decode_kernel<T, P, false>, work);
}

template <class T>
void launch_decode(const gpu::Launch& launch, Decode work) {
  constexpr int kLargest = 32 * kChunk<T>;  // head_dim that one piece a lane covers
  const bool vectors = heads_allow_vectors(work.cache);
  work.lanes_per_key = lanes_for(work.cache.head_dim, kChunk<T>);
  if constexpr (kLargest < kMaxHeadDim) {
    if (work.cache.head_dim > kLargest) return launch_pieces<T, 2>(launch, work, vectors);
  }
  launch_pieces<T, 1>(launch, work, vectors);
}

}  // namespace

int decode_splits(std::int64_t n_rows, std::int64_t n_head, int n_sm, std::int64_t max_tokens) {
  const std::int64_t items = std::max<std::int64_t>(1, n_rows * n_head);
  const std::int64_t wanted = (std::int64_t{4} * n_sm + items - 1) / items;  // 4 blocks fill an SM
  return static_cast<int>(std::clamp<std::int64_t>(wanted, 1, max_runs(max_tokens)));
}

std::size_t attention_scratch_floats(std::int64_t n_rows, const KvView& cache,
                                     std::int64_t max_tokens) {
  return static_cast<std::size_t>(n_rows * cache.n_head * max_runs(max_tokens) *
                                  (cache.head_dim + 2));
}

void attention_decode(cudaStream_t stream, const MatrixView& q, const AttentionBatch& batch,
                      const KvView& cache, float scale, int n_splits, std::int64_t max_tokens,
                      float* scratch, const MatrixView& out) {
  check_heads(q, batch, cache, "attention: shape of the queries");
  check_heads(out, batch, cache, "attention: shape of the result");
  check(n_splits >= 1, "attention: number of splits");
  if (out.rows == 0 || out.cols == 0) return;
  Decode work{q,
              batch,
              cache,
              scale,
              max_runs(max_tokens),
              0,
              heads_allow_vectors(q, cache.head_dim),
              scratch,
              nullptr,
              out};
  work.totals = scratch + out.rows * cache.n_head * work.max_runs * cache.head_dim;
  const auto rows = static_cast<unsigned>(out.rows), heads = static_cast<unsigned>(cache.n_head);
  with_element(cache.dtype, [&](auto element) {
    launch_decode<decltype(element)>(
        {dim3(rows, heads, static_cast<unsigned>(n_splits)), dim3(kThreads), 0, stream}, work);
  });
  with_element(out.dtype, [&](auto element) {
    gpu::launch({dim3(rows, heads), dim3(threads_for(cache.head_dim, 256)), 0, stream},
                join_kernel<decltype(element)>, work);
  });
}

}  // namespace shardlm::cuda
