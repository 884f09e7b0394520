// The rows that a block of attention_prefill() computes, for both of its ways.
#pragma once

#include <cstdint>

#include "backend/cuda/gpu.h"
#include "backend/cuda/kernels/attention.h"

namespace shardlm::cuda {

struct TileRows {
  std::int64_t first_row = 0;            ///< in q and out
  std::int32_t n_rows = 0;               ///< of this block; may be none
  std::int32_t position = 0;             ///< of the first row
  std::int32_t n_keys = 0;               ///< that the last row attends to; 0: rows of no sequence
  const std::int32_t* blocks = nullptr;  ///< of their sequence
};

/// The rows of the index-th block, if Rows rows of a tile are given to a block each.
template <int Rows>
__device__ __forceinline__ TileRows rows_of_block(const AttentionBatch& batch, unsigned index) {
  constexpr unsigned kParts = kPrefillRows / Rows;
  const PrefillTile tile = batch.tiles[index / kParts];
  const auto skipped = static_cast<std::int32_t>(index % kParts) * Rows;
  TileRows rows;
  rows.first_row = tile.first_row + skipped;
  rows.n_rows = min(Rows, tile.n_rows - skipped);
  if (tile.sequence < 0) return rows;
  const SequenceSlot slot = batch.sequences[tile.sequence];
  rows.position = slot.start + (tile.first_row + skipped - slot.first_row);
  rows.n_keys = rows.position + rows.n_rows;
  rows.blocks = batch.blocks + slot.block_table_offset;
  return rows;
}

}  // namespace shardlm::cuda
