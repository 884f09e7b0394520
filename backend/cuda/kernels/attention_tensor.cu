#include "backend/cuda/kernels/attention_math.h"
#include "backend/cuda/kernels/attention_prefill.h"
#include "backend/cuda/kernels/attention_tile.h"
#include "backend/cuda/kernels/chunk.h"

namespace shardlm::cuda {
namespace {

constexpr int kThreads = 128;
constexpr int kWarpRows = 16;  // of queries: what one mma takes
constexpr int kRows = kThreads / 32 * kWarpRows;
constexpr int kMaxTensorHeadDim = 128;

/// Two floats as one register of a fragment, the first in the lower half.
template <class T>
__device__ __forceinline__ unsigned pack(float low, float high) {
  T pair[2];
  from_float(low, pair[0]);
  from_float(high, pair[1]);
  unsigned bits = 0;
  std::memcpy(&bits, pair, sizeof bits);
  return bits;
}

/// Keys or values of a run of keys in shared memory, rows of a head; 16 bytes between two rows put
/// 8 rows into different banks.
template <class T, int HeadDim, int Keys>
struct alignas(16) KvPanel {
  T row[Keys][HeadDim + 8];
};

/// What each thread keeps of the block's 64 rows: with g = lane / 4 and t = lane % 4, rows g (half
/// 0) and g + 8 (half 1) of its warp's 16.
template <int HeadDim>
struct WarpState {
  float max[2] = {minus_infinity(), minus_infinity()};
  float total[2] = {};             ///< of this thread's share of the keys
  float sum[HeadDim / 8][4] = {};  ///< fragments d of mma, 8 elements of the head each
};

/// Fragments a of the warp's rows of q: two elements a register, straight from memory.
template <class T, int HeadDim>
__device__ __forceinline__ void load_queries(const Prefill& work, const TileRows& rows,
                                             std::int64_t head, int first_row,
                                             unsigned (&query)[HeadDim / 16][4]) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const auto head_dim = static_cast<int>(work.cache.head_dim);
#pragma unroll
  for (int k = 0; k < HeadDim / 16; ++k) {
#pragma unroll
    for (int part = 0; part < 4; ++part) {
      const int row = first_row + lane / 4 + part % 2 * 8;
      const int i = 16 * k + 2 * (lane % 4) + part / 2 * 8;
      query[k][part] = 0;
      if (row >= rows.n_rows || i >= head_dim) continue;
      const T* from = static_cast<const T*>(work.q.data) + (rows.first_row + row) * work.q.stride +
                      head * head_dim + i;
      std::memcpy(&query[k][part], aligned_to<4>(from), 4);
    }
  }
}

/// Starts copying the keys and values [first_key, first_key + Keys); zeros where there are none.
template <class T, int HeadDim, int Keys>
__device__ __forceinline__ void start_copy(const Prefill& work, const TileRows& rows,
                                           std::int64_t head, std::int32_t first_key,
                                           KvPanel<T, HeadDim, Keys>& keys,
                                           KvPanel<T, HeadDim, Keys>& values) {
  const int per_row = static_cast<int>(work.cache.head_dim) / kChunk<T>;
  for (int item = static_cast<int>(threadIdx.x); item < Keys * per_row; item += kThreads) {
    const int key = item / per_row, i = item % per_row * kChunk<T>;
    const bool exists = first_key + key < rows.n_keys;
    const std::int64_t at =
        exists ? token_index(work.cache, rows.blocks, head, first_key + key) + i : 0;
    const unsigned bytes = exists ? 16 : 0;
    gpu::cp_async_16_zero_fill(&keys.row[key][i], static_cast<const T*>(work.cache.keys) + at,
                               bytes);
    gpu::cp_async_16_zero_fill(&values.row[key][i], static_cast<const T*>(work.cache.values) + at,
                               bytes);
  }
  gpu::cp_async_commit();
}

/// score = query . key, as fragments d of 8 keys each.
template <class T, int HeadDim, int Keys>
__device__ __forceinline__ void make_scores(int head_dim, const unsigned (&query)[HeadDim / 16][4],
                                            const KvPanel<T, HeadDim, Keys>& keys,
                                            float (&score)[Keys / 8][4]) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
  for (int k = 0; k < HeadDim / 16; ++k) {
    if (16 * k >= head_dim) continue;
#pragma unroll
    for (int n = 0; n < Keys / 16; ++n) {
      // Matrices: keys 0 to 7 in elements 0 to 7 and 8 to 15, then keys 8 to 15.
      unsigned b[4];
      gpu::load_matrix_x4(b,
                          &keys.row[16 * n + lane / 16 * 8 + lane % 8][16 * k + lane / 8 % 2 * 8]);
      gpu::mma_m16n8k16<T>(score[2 * n], query[k], {b[0], b[1]});
      gpu::mma_m16n8k16<T>(score[2 * n + 1], query[k], {b[2], b[3]});
    }
  }
}

/// Scores become the weights of the values, and the sums so far what they are worth beside them.
/// `position`: of the thread's row g.
template <int HeadDim, int Keys>
__device__ __forceinline__ void join_scores(float scale, std::int32_t position,
                                            std::int32_t first_key, float (&score)[Keys / 8][4],
                                            WarpState<HeadDim>& state) {
  const int column = 2 * (static_cast<int>(threadIdx.x) % 4);
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    float max = state.max[half];
#pragma unroll
    for (int n = 0; n < Keys / 8; ++n) {
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        float& s = score[n][2 * half + e];
        const bool seen = first_key + 8 * n + column + e <= position + 8 * half;
        s = seen ? s * (scale * kLog2E) : minus_infinity();
        max = fmaxf(max, s);
      }
    }
    max = fmaxf(max, __shfl_xor_sync(~0U, max, 1));
    max = fmaxf(max, __shfl_xor_sync(~0U, max, 2));
    const float factor = rescale(state.max[half], max);
    state.max[half] = max;
    state.total[half] *= factor;
#pragma unroll
    for (int n = 0; n < HeadDim / 8; ++n) {
#pragma unroll
      for (int e = 0; e < 2; ++e) state.sum[n][2 * half + e] *= factor;
    }
#pragma unroll
    for (int n = 0; n < Keys / 8; ++n) {
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        float& s = score[n][2 * half + e];
        s = s == minus_infinity() ? 0.0F : exp2f(s - max);
        state.total[half] += s;
      }
    }
  }
}

/// sum += weights . values.
template <class T, int HeadDim, int Keys>
__device__ __forceinline__ void add_values(int head_dim, const float (&weight)[Keys / 8][4],
                                           const KvPanel<T, HeadDim, Keys>& values,
                                           float (&sum)[HeadDim / 8][4]) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
  for (int k = 0; k < Keys / 16; ++k) {
    // Fragments d of two times 8 keys are fragment a of 16.
    const float(&low)[4] = weight[2 * k];
    const float(&high)[4] = weight[2 * k + 1];
    const unsigned a[4] = {pack<T>(low[0], low[1]), pack<T>(low[2], low[3]),
                           pack<T>(high[0], high[1]), pack<T>(high[2], high[3])};
#pragma unroll
    for (int n = 0; n < HeadDim / 16; ++n) {
      if (16 * n >= head_dim) continue;
      // Matrices: elements 0 to 7 of keys 0 to 7 and 8 to 15, then elements 8 to 15.
      unsigned b[4];
      gpu::load_matrix_x4_transposed(
          b, &values.row[16 * k + lane / 8 % 2 * 8 + lane % 8][16 * n + lane / 16 * 8]);
      gpu::mma_m16n8k16<T>(sum[2 * n], a, {b[0], b[1]});
      gpu::mma_m16n8k16<T>(sum[2 * n + 1], a, {b[2], b[3]});
    }
  }
}

template <class T, int HeadDim>
__device__ __forceinline__ void store_result(const Prefill& work, const TileRows& rows,
                                             std::int64_t head, int first_row,
                                             const WarpState<HeadDim>& state) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const auto head_dim = static_cast<int>(work.cache.head_dim);
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    float total = state.total[half];
    total += __shfl_xor_sync(~0U, total, 1);
    total += __shfl_xor_sync(~0U, total, 2);
    const float factor = rows.n_keys == 0 ? 0.0F : 1 / total;
    const int row = first_row + lane / 4 + 8 * half;
    if (row >= rows.n_rows) continue;
    T* to = static_cast<T*>(work.out.data) + (rows.first_row + row) * work.out.stride +
            head * head_dim + 2 * (lane % 4);
#pragma unroll
    for (int n = 0; n < HeadDim / 8; ++n) {
      if (8 * n >= head_dim) continue;
      const unsigned pair =
          pack<T>(state.sum[n][2 * half] * factor, state.sum[n][2 * half + 1] * factor);
      std::memcpy(aligned_to<4>(to + 8 * n), &pair, sizeof pair);
    }
  }
}

/// Grid: tiles, heads; a warp keeps 16 rows of the tile. While some keys are worked on, the next
/// are on their way to the other half of the shared memory.
template <class T, int HeadDim, int Keys>
__global__ void __launch_bounds__(kThreads) tensor_prefill_kernel(Prefill work) {
  using Panel = KvPanel<T, HeadDim, Keys>;
  GPU_SHARED(Panel, keys, [2]);
  GPU_SHARED(Panel, values, [2]);
  const TileRows rows = rows_of_block<kRows>(work.batch, blockIdx.x);
  const std::int64_t head = blockIdx.y;
  const auto head_dim = static_cast<int>(work.cache.head_dim);
  const int first_row = static_cast<int>(threadIdx.x) / 32 * kWarpRows;
  const int last_row = min(first_row + kWarpRows, rows.n_rows) - 1;
  const std::int32_t position = rows.position + first_row + static_cast<int>(threadIdx.x) % 32 / 4;
  unsigned query[HeadDim / 16][4];
  load_queries<T, HeadDim>(work, rows, head, first_row, query);
  WarpState<HeadDim> state;

  int half = 0;
  if (rows.n_keys > 0) start_copy(work, rows, head, 0, keys[0], values[0]);
  for (std::int32_t first_key = 0; first_key < rows.n_keys; first_key += Keys) {
    gpu::cp_async_wait<0>();
    __syncthreads();
    if (first_key + Keys < rows.n_keys) {
      start_copy(work, rows, head, first_key + Keys, keys[1 - half], values[1 - half]);
    }
    if (last_row >= first_row && first_key <= rows.position + last_row) {
      float score[Keys / 8][4] = {};
      make_scores(head_dim, query, keys[half], score);
      join_scores<HeadDim, Keys>(work.scale, position, first_key, score, state);
      add_values(head_dim, score, values[half], state.sum);
    }
    half = 1 - half;
  }
  store_result<T>(work, rows, head, first_row, state);
}

template <class T, int HeadDim, int Keys>
void launch_tensor(cudaStream_t stream, const Prefill& work) {
  gpu::launch(
      {dim3(static_cast<unsigned>(work.batch.n_tiles), static_cast<unsigned>(work.cache.n_head)),
       dim3(kThreads), 0, stream},
      tensor_prefill_kernel<T, HeadDim, Keys>, work);
}

template <class T>
void launch_tensor(cudaStream_t stream, const Prefill& work) {
  if (work.cache.head_dim <= 64) {
    launch_tensor<T, 64, 64>(stream, work);
  } else {
    launch_tensor<T, kMaxTensorHeadDim, 32>(stream, work);
  }
}

}  // namespace

bool fits_tensor_core(const Prefill& work) {
  static_assert(kRows == kPrefillRows);
  const DType dtype = work.q.dtype;
  return dtype != DType::f32 && work.out.dtype == dtype && work.cache.dtype == dtype &&
         work.cache.head_dim % 16 == 0 && work.cache.head_dim <= kMaxTensorHeadDim &&
         work.q_vectors && work.kv_vectors;
}

void prefill_tensor_core(cudaStream_t stream, const Prefill& work) {
  if (work.q.dtype == DType::f16) {
    launch_tensor<__half>(stream, work);
  } else {
    launch_tensor<__nv_bfloat16>(stream, work);
  }
}

}  // namespace shardlm::cuda
