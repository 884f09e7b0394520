// Causal attention of a ragged step over the block cache.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "backend/cpu/kv_storage.h"
#include "backend/cpu/thread_pool.h"

namespace shardlm {

/// One query over the first `tokens` positions of its sequence, in one head.
struct HeadQuery {
  const float* q = nullptr;              ///< [head_dim]
  const float* keys = nullptr;           ///< this head's part of block 0
  const float* values = nullptr;         ///< the same of the values
  std::int64_t block_floats = 0;         ///< from block to block
  std::span<const std::int32_t> blocks;  ///< of the sequence
  std::int64_t block_tokens = 0;
  std::int64_t head_dim = 0;
  std::int64_t tokens = 0;  ///< >= 1
  float scale = 1;
  float* scores = nullptr;  ///< scratch for attention_scratch(tokens) floats
  float* out = nullptr;     ///< [head_dim]
};
void attend(const HeadQuery& query);
std::int64_t attention_scratch(std::int64_t tokens);

/// See Backend::attention.
class Attention {
 public:
  explicit Attention(ThreadPool& threads) : threads_(threads) {}
  void run(const Tensor& q, const Tensor& k, const Tensor& v, CpuKvStorage& cache,
           std::span<const SequenceRows> sequences, float scale, const Tensor& out);

 private:
  struct Call;
  void append(const Call& call);
  void attend_share(const Call& call, std::int64_t share);

  ThreadPool& threads_;
  std::vector<float> scratch_;       // scores, one piece a thread
  std::int64_t scratch_floats_ = 0;  // of one thread
};

}  // namespace shardlm
