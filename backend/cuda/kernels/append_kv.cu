#include <string>

#include "backend/cuda/kernels/attention.h"
#include "backend/cuda/kernels/attention_math.h"
#include "backend/cuda/kernels/chunk.h"

namespace shardlm::cuda {
namespace {

/// Elements that a thread takes at a time.
constexpr int kElements = 8;

struct Append {
  MatrixView k, v;
  AttentionBatch batch;
  KvView cache;
  bool vectors;
};

/// One block a row: first all chunks of its keys, then those of its values.
__global__ void append_kv_kernel(Append work) {
  const KvView& cache = work.cache;
  const std::int64_t row = blockIdx.x;
  const std::int32_t sequence = work.batch.row_sequence[row];
  if (sequence < 0) return;
  const SequenceSlot slot = work.batch.sequences[sequence];
  const auto position = static_cast<std::int32_t>(slot.start + (row - slot.first_row));
  const std::int32_t* blocks = work.batch.blocks + slot.block_table_offset;
  const std::int64_t per_head = (cache.head_dim + kElements - 1) / kElements;
  const std::int64_t per_row = per_head * cache.n_head;
  for (std::int64_t item = threadIdx.x; item < 2 * per_row; item += blockDim.x) {
    const bool is_value = item >= per_row;
    const std::int64_t chunk = is_value ? item - per_row : item;
    const std::int64_t head = chunk / per_head, i = chunk % per_head * kElements;
    const std::int64_t count = cache.head_dim - i;
    const MatrixView& from = is_value ? work.v : work.k;
    float values[kElements];
    load_chunk(from.dtype, from.data, row * from.stride + head * cache.head_dim + i, count,
               work.vectors, values);
    store_chunk(values, count, work.vectors, cache.dtype, is_value ? cache.values : cache.keys,
                token_index(cache, blocks, head, position) + i);
  }
}

}  // namespace

bool heads_allow_vectors(const MatrixView& rows, std::int64_t head_dim) {
  return allows_vectors(rows) && head_dim % kElements == 0;
}

bool heads_allow_vectors(const KvView& cache) {
  const auto aligned = [](const void* p) { return reinterpret_cast<std::uintptr_t>(p) % 16 == 0; };
  return aligned(cache.keys) && aligned(cache.values) && cache.head_dim % kElements == 0;
}

void check_heads(const MatrixView& rows, const AttentionBatch& batch, const KvView& cache,
                 const char* what) {
  check(rows.rows == batch.n_rows && rows.cols == cache.n_head * cache.head_dim, what);
  with_element(rows.dtype, [](auto) {});  // refuses what kernels cannot load
  with_element(cache.dtype, [](auto) {});
  if (cache.head_dim > kMaxHeadDim) {
    fail(ExitCode::model_files, {.what = "attention on this back end: head_dim",
                                 .expected = "at most " + std::to_string(kMaxHeadDim),
                                 .found = std::to_string(cache.head_dim),
                                 .remedy = "use the CPU back end"});
  }
}

void append_kv(cudaStream_t stream, const MatrixView& k, const MatrixView& v,
               const AttentionBatch& batch, const KvView& cache) {
  check_heads(k, batch, cache, "append_kv: shape of the keys");
  check_heads(v, batch, cache, "append_kv: shape of the values");
  if (k.rows == 0 || k.cols == 0) return;
  const bool vectors = heads_allow_vectors(k, cache.head_dim) &&
                       heads_allow_vectors(v, cache.head_dim) && heads_allow_vectors(cache);
  const std::int64_t items = 2 * cache.n_head * ((cache.head_dim + kElements - 1) / kElements);
  gpu::launch({dim3(static_cast<unsigned>(k.rows)), dim3(threads_for(items, 256)), 0, stream},
              append_kv_kernel, Append{k, v, batch, cache, vectors});
}

}  // namespace shardlm::cuda
