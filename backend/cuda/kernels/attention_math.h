// What the attention kernels share: where a token stands, and softmax in pieces. Scores are in
// units of log 2, so that exp2f() serves.
#pragma once

#include <cstdint>

#include "backend/cuda/gpu.h"
#include "backend/cuda/kernels/attention.h"

namespace shardlm::cuda {

inline constexpr float kLog2E = 1.4426950408889634F;

__device__ __forceinline__ float minus_infinity() { return -INFINITY; }

/// Index in keys and values of the first element of token `position` of the sequence whose block
/// numbers are `blocks`.
__device__ __forceinline__ std::int64_t token_index(const KvView& cache, const std::int32_t* blocks,
                                                    std::int64_t head, std::int32_t position) {
  const auto block_tokens = static_cast<std::int32_t>(cache.block_tokens);
  const std::int64_t block = blocks[position / block_tokens];
  return ((block * cache.n_head + head) * block_tokens + position % block_tokens) * cache.head_dim;
}

/// What a sum of 2^(score - max) becomes worth when the maximum rises; 1 if it stays, also where
/// there is none yet.
__device__ __forceinline__ float rescale(float max, float new_max) {
  return max == new_max ? 1.0F : exp2f(max - new_max);
}

/// True if chunks of heads may be taken by 16-byte accesses.
bool heads_allow_vectors(const MatrixView& rows, std::int64_t head_dim);
bool heads_allow_vectors(const KvView& cache);

/// Fails unless the view is [T, n_head * head_dim] and the cache is one that kernels know.
void check_heads(const MatrixView& rows, const AttentionBatch& batch, const KvView& cache,
                 const char* what);

}  // namespace shardlm::cuda
