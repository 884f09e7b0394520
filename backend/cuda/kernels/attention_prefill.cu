#include "backend/cuda/kernels/attention_prefill.h"

#include <algorithm>

#include "backend/cuda/kernels/attention_math.h"
#include "backend/cuda/kernels/attention_tile.h"
#include "backend/cuda/kernels/chunk.h"

namespace shardlm::cuda {
namespace {

constexpr int kThreads = 128;
constexpr int kColumns = 16;                     // threads that share a row of scores
constexpr int kRowGroups = kThreads / kColumns;  // rows at the same time
constexpr int kElements = 8;                     // that a thread loads at a time

/// Rows of HeadDim floats in shared memory; four more, so that 8 rows lie in different banks.
template <int HeadDim, int Rows>
struct alignas(16) Panel {
  float row[Rows][HeadDim + 4];
};

/// Fills rows of `panel` with zeros beyond n_rows and beyond head_dim; source(row, i, values) makes
/// kElements elements from i on.
template <int HeadDim, int Rows, class Source>
__device__ __forceinline__ void fill_panel(Panel<HeadDim, Rows>& panel, std::int32_t n_rows,
                                           const Source& source) {
  constexpr int kChunks = HeadDim / kElements;
  for (int item = static_cast<int>(threadIdx.x); item < Rows * kChunks; item += kThreads) {
    const int row = item / kChunks, i = item % kChunks * kElements;
    float values[kElements] = {};
    if (row < n_rows) source(row, i, values);
    store_chunk(values, kElements, true, &panel.row[row][i]);
  }
}

template <int HeadDim, int Rows>
__device__ __forceinline__ void load_keys(const Prefill& work, const void* array,
                                          const TileRows& rows, std::int64_t head,
                                          std::int32_t first_key, Panel<HeadDim, Rows>& panel) {
  fill_panel<HeadDim, Rows>(
      panel, rows.n_keys - first_key, [&](int row, int i, float(&values)[kElements]) {
        load_chunk(work.cache.dtype, array,
                   token_index(work.cache, rows.blocks, head, first_key + row) + i,
                   work.cache.head_dim - i, work.kv_vectors, values);
      });
}

/// score[r][k] = scale query . key, for rows thread / 16 + 8 r and keys thread % 16 + 16 k of the
/// panels; in units of log 2; minus infinity for keys behind the row.
template <int HeadDim, int Tile, int R, int K>
__device__ __forceinline__ void make_scores(const Prefill& work, const TileRows& rows,
                                            std::int32_t first_key,
                                            const Panel<HeadDim, Tile>& queries,
                                            const Panel<HeadDim, Tile>& keys,
                                            float (&score)[R][K]) {
  const int column = static_cast<int>(threadIdx.x) % kColumns;
  const int group = static_cast<int>(threadIdx.x) / kColumns;
  for (int i = 0; i < work.cache.head_dim; i += 4) {
    float query[R][4], key[K][4];
#pragma unroll
    for (int r = 0; r < R; ++r)
      load_chunk(&queries.row[group + kRowGroups * r][i], 4, true, query[r]);
#pragma unroll
    for (int k = 0; k < K; ++k) load_chunk(&keys.row[column + kColumns * k][i], 4, true, key[k]);
#pragma unroll
    for (int r = 0; r < R; ++r) {
#pragma unroll
      for (int k = 0; k < K; ++k) {
#pragma unroll
        for (int e = 0; e < 4; ++e) score[r][k] = fmaf(query[r][e], key[k][e], score[r][k]);
      }
    }
  }
#pragma unroll
  for (int r = 0; r < R; ++r) {
#pragma unroll
    for (int k = 0; k < K; ++k) {
      const std::int32_t key = first_key + column + kColumns * k;
      const bool seen = key <= rows.position + group + kRowGroups * r;
      score[r][k] = seen ? score[r][k] * (work.scale * kLog2E) : minus_infinity();
    }
  }
}

/// Joins the scores of one row to its softmax so far: they become weights of the values, and the
/// result is what the sums so far are worth. The 16 threads of the row call this together.
template <int K>
__device__ __forceinline__ float join_scores(float (&score)[K], float& max, float& total) {
  float new_max = max;
  for (const float s : score) new_max = fmaxf(new_max, s);
#pragma unroll
  for (int other = kColumns / 2; other > 0; other /= 2) {
    new_max = fmaxf(new_max, __shfl_xor_sync(~0U, new_max, other));
  }
  float sum = 0;
  for (float& s : score) {
    s = s == minus_infinity() ? 0.0F : exp2f(s - new_max);
    sum += s;
  }
#pragma unroll
  for (int other = kColumns / 2; other > 0; other /= 2) sum += __shfl_xor_sync(~0U, sum, other);
  const float factor = rescale(max, new_max);
  total = fmaf(total, factor, sum);
  max = new_max;
  return factor;
}

/// Grid: parts of tiles, heads. Tile rows of queries against Tile keys at a time. Keys and values
/// take turns in one panel. A thread keeps rows thread / 16 + 8 r and of them the elements
/// 4 (thread % 16) + 64 j of the result.
template <int HeadDim, int Tile>
__global__ void __launch_bounds__(kThreads) prefill_kernel(Prefill work) {
  constexpr int R = Tile / kRowGroups, K = Tile / kColumns, J = HeadDim / 64;
  using Rows = Panel<HeadDim, Tile>;
  using Weights = Panel<Tile, Tile>;
  GPU_SHARED(Rows, queries);
  GPU_SHARED(Rows, panel);
  GPU_SHARED(Weights, weights);
  const TileRows rows = rows_of_block<Tile>(work.batch, blockIdx.x);
  if (rows.n_rows <= 0) return;
  const std::int64_t head = blockIdx.y, head_dim = work.cache.head_dim;
  const int column = static_cast<int>(threadIdx.x) % kColumns;
  const int group = static_cast<int>(threadIdx.x) / kColumns;
  fill_panel<HeadDim, Tile>(queries, rows.n_rows, [&](int row, int i, float(&values)[kElements]) {
    load_chunk(work.q.dtype, work.q.data,
               (rows.first_row + row) * work.q.stride + head * head_dim + i, head_dim - i,
               work.q_vectors, values);
  });

  float max[R], total[R] = {}, sum[R][J][4] = {};
  for (float& m : max) m = minus_infinity();
  for (std::int32_t first_key = 0; first_key < rows.n_keys; first_key += Tile) {
    load_keys<HeadDim, Tile>(work, work.cache.keys, rows, head, first_key, panel);
    __syncthreads();
    float score[R][K] = {};
    make_scores<HeadDim, Tile>(work, rows, first_key, queries, panel, score);
#pragma unroll
    for (int r = 0; r < R; ++r) {
      const float factor = join_scores(score[r], max[r], total[r]);
#pragma unroll
      for (int j = 0; j < J; ++j) {
        for (float& element : sum[r][j]) element *= factor;
      }
#pragma unroll
      for (int k = 0; k < K; ++k) {
        weights.row[group + kRowGroups * r][column + kColumns * k] = score[r][k];
      }
    }
    __syncthreads();
    load_keys<HeadDim, Tile>(work, work.cache.values, rows, head, first_key, panel);
    __syncthreads();
    for (int key = 0; key < Tile; key += 4) {
      float weight[R][4];
#pragma unroll
      for (int r = 0; r < R; ++r)
        load_chunk(&weights.row[group + kRowGroups * r][key], 4, true, weight[r]);
#pragma unroll
      for (int k = 0; k < 4; ++k) {
#pragma unroll
        for (int j = 0; j < J; ++j) {
          float value[4];
          load_chunk(&panel.row[key + k][4 * column + 64 * j], 4, true, value);
#pragma unroll
          for (int r = 0; r < R; ++r) {
#pragma unroll
            for (int e = 0; e < 4; ++e) {
              sum[r][j][e] = fmaf(weight[r][k], value[e], sum[r][j][e]);
            }
          }
        }
      }
    }
    __syncthreads();
  }

#pragma unroll
  for (int r = 0; r < R; ++r) {
    const int row = group + kRowGroups * r;
    if (row >= rows.n_rows) continue;
#pragma unroll
    for (int j = 0; j < J; ++j) {
      const std::int64_t i = 4 * column + 64 * j;
      for (float& element : sum[r][j]) element = rows.n_keys == 0 ? 0.0F : element / total[r];
      store_chunk(sum[r][j], head_dim - i, work.q_vectors, work.out.dtype, work.out.data,
                  (rows.first_row + row) * work.out.stride + head * head_dim + i);
    }
  }
}

template <int HeadDim, int Tile>
void launch_prefill(cudaStream_t stream, const Prefill& work) {
  const std::int64_t blocks = work.batch.n_tiles * (kPrefillRows / Tile);
  gpu::launch({dim3(static_cast<unsigned>(blocks), static_cast<unsigned>(work.cache.n_head)),
               dim3(kThreads), 0, stream},
              prefill_kernel<HeadDim, Tile>, work);
}

}  // namespace

void prefill_float32(cudaStream_t stream, const Prefill& work) {
  if (work.cache.head_dim <= 64) {
    launch_prefill<64, 32>(stream, work);
  } else if (work.cache.head_dim <= 128) {
    launch_prefill<128, 32>(stream, work);
  } else {
    launch_prefill<256, 16>(stream, work);
  }
}

std::vector<PrefillTile> prefill_tiles(std::span<const SequenceSlot> sequences,
                                       std::int64_t n_rows) {
  std::vector<PrefillTile> tiles;
  const auto cover = [&tiles](std::int32_t sequence, std::int32_t begin, std::int32_t end) {
    for (; begin < end; begin += kPrefillRows) {
      tiles.push_back({sequence, begin, std::min(kPrefillRows, end - begin)});
    }
  };
  std::int32_t row = 0;
  for (std::size_t s = 0; s < sequences.size(); ++s) {
    const SequenceSlot& slot = sequences[s];
    if (slot.n_rows == 0) continue;
    check(slot.first_row >= row, "prefill_tiles: sequences in the order of their rows");
    cover(-1, row, slot.first_row);
    row = slot.first_row + slot.n_rows;
    cover(static_cast<std::int32_t>(s), slot.first_row, row);
  }
  cover(-1, row, static_cast<std::int32_t>(n_rows));
  return tiles;
}

void attention_prefill(cudaStream_t stream, const MatrixView& q, const AttentionBatch& batch,
                       const KvView& cache, float scale, const MatrixView& out) {
  check_heads(q, batch, cache, "attention: shape of the queries");
  check_heads(out, batch, cache, "attention: shape of the result");
  if (out.rows == 0 || out.cols == 0) return;
  const bool q_vectors =
      heads_allow_vectors(q, cache.head_dim) && heads_allow_vectors(out, cache.head_dim);
  const Prefill work{q, batch, cache, scale, q_vectors, heads_allow_vectors(cache), out};
  return fits_tensor_core(work) ? prefill_tensor_core(stream, work) : prefill_float32(stream, work);
}

}  // namespace shardlm::cuda
