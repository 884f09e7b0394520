// Causal attention over a cache of keys and values in blocks, for ragged batches.
//
// The cache of a layer: keys and values, each [n_blocks][n_head][block_tokens][head_dim]. Token p
// of a sequence stands in row p % block_tokens of the sequence's block number p / block_tokens.
// Nothing about lengths is an argument of a launch but through AttentionBatch's device memory, so
// append_kv() and attention_decode() can be recorded and replayed for later steps.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "backend/cuda/kernels/view.h"

namespace shardlm::cuda {

/// Largest head_dim that the attention kernels take.
inline constexpr std::int64_t kMaxHeadDim = 256;

/// A sequence of the step, in device memory.
struct SequenceSlot {
  std::int32_t first_row = 0;           ///< in q, k, v and out
  std::int32_t n_rows = 0;              ///< 0: a slot that is not used
  std::int32_t start = 0;               ///< position of the first row
  std::int32_t block_table_offset = 0;  ///< of the sequence's first block in `blocks`
};

/// Rows of one sequence that attention_prefill() computes together.
struct PrefillTile {
  std::int32_t sequence = 0;   ///< index of its slot; -1: rows of no sequence
  std::int32_t first_row = 0;  ///< in q and out
  std::int32_t n_rows = 0;     ///< at most kPrefillRows
};
inline constexpr std::int32_t kPrefillRows = 64;

/// All pointers are device memory.
struct AttentionBatch {
  const SequenceSlot* sequences = nullptr;
  std::int64_t n_sequences = 0;
  const std::int32_t* blocks = nullptr;        ///< block numbers of all sequences
  const std::int32_t* row_sequence = nullptr;  ///< [n_rows] slot of each row; -1: padding
  std::int64_t n_rows = 0;                     ///< T, padding included
  const PrefillTile* tiles = nullptr;          ///< for attention_prefill() only
  std::int64_t n_tiles = 0;
};

/// The cache of a layer for the heads that live here.
struct KvView {
  void* keys = nullptr;  ///< aligned to 16 bytes
  void* values = nullptr;
  std::int64_t n_head = 0, block_tokens = 0, head_dim = 0;
  DType dtype = DType::f32;
};

/// Tiles that cover every row of the step once: those of each sequence, and the rows between.
/// `sequences` are in the order of their rows.
std::vector<PrefillTile> prefill_tiles(std::span<const SequenceSlot> sequences,
                                       std::int64_t n_rows);

/// Writes the rows of k and v [T, n_head * head_dim] to their places in the cache. Padding rows
/// are left out.
void append_kv(cudaStream_t stream, const MatrixView& k, const MatrixView& v,
               const AttentionBatch& batch, const KvView& cache);

/// out[t, h] = softmax(scale q[t, h] . K[0..pos(t), h]) V, zeros for padding rows. q and out
/// [T, n_head * head_dim] of one dtype. The keys and values of the step's own rows are in the cache
/// already. A row is cut into runs of kDecodeKeys keys, computed apart and joined in their order:
/// its result has the same bits whatever other rows there are and whatever n_splits is.
/// `n_splits`: runs of one row that are computed side by side; see decode_splits(). `max_tokens`:
/// keys that a row may have; a row with more becomes NaN. `scratch`: attention_scratch_floats()
/// floats.
void attention_decode(cudaStream_t stream, const MatrixView& q, const AttentionBatch& batch,
                      const KvView& cache, float scale, int n_splits, std::int64_t max_tokens,
                      float* scratch, const MatrixView& out);
inline constexpr int kDecodeKeys = 128;

/// Blocks a row and head that fill a device of n_sm multiprocessors; at most one a run of keys.
int decode_splits(std::int64_t n_rows, std::int64_t n_head, int n_sm, std::int64_t max_tokens);

/// Scratch of attention_decode() for rows of at most max_tokens keys.
std::size_t attention_scratch_floats(std::int64_t n_rows, const KvView& cache,
                                     std::int64_t max_tokens);

/// The same for sequences of many rows, by tiles (batch.tiles): out as for attention_decode(). Runs
/// on tensor cores where q, out and the cache are of one 2-byte type, head_dim is a multiple of 16
/// up to 128 and rows are aligned to 16 bytes; there the probabilities are rounded to that type
/// before they weigh the values.
void attention_prefill(cudaStream_t stream, const MatrixView& q, const AttentionBatch& batch,
                       const KvView& cache, float scale, const MatrixView& out);

}  // namespace shardlm::cuda
