// Where keys and values of one layer stand.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "backend/backend.h"
#include "backend/cpu/mapped_memory.h"

namespace shardlm {

/// What kernels see of one head of one sequence. A part is the head's piece of a block:
/// keys [group of 16 tokens][head_dim][16], so that the scores of 16 tokens are sums down a column;
/// values [token][value_stride]; int8 alone: one float32 scale a token for keys, then for values.
struct HeadCache {
  std::byte* part = nullptr;     ///< the head's part of block 0
  std::int64_t block_bytes = 0;  ///< from block to block
  std::int64_t values_at = 0;    ///< bytes from the start of a part to its values,
  std::int64_t key_scales_at = 0, value_scales_at = 0;  ///< and to its scales
  std::int64_t block_tokens = 0, head_dim = 0;
  std::int64_t value_stride = 0;  ///< head_dim rounded up to 16; what is behind head_dim is 0
  DType type = DType::f32;
  std::span<const std::int32_t> blocks = {};  ///< of the sequence
};

/// Keys and values in float32, bfloat16, float16 or int8 (symmetric, one scale for each token and
/// head). A head's keys and values of a block stand together: [block][head][keys, values, scales],
/// each at a multiple of 64 bytes. Pages exist from first use on.
class CpuKvStorage final : public KvStorage {
 public:
  static constexpr std::int64_t kTokenGroup = 16;  ///< block_tokens is a multiple of this

  CpuKvStorage(std::int64_t n_head, std::int64_t head_dim, std::int64_t n_blocks,
               std::int64_t block_tokens, DType type = DType::f32);

  std::int64_t n_head() const override { return n_head_; }
  std::int64_t head_dim() const override { return layout_.head_dim; }
  std::int64_t n_blocks() const override { return n_blocks_; }
  std::int64_t block_tokens() const override { return layout_.block_tokens; }
  std::size_t bytes() const override { return memory_.bytes(); }
  DType type() const { return layout_.type; }

  HeadCache head(std::int64_t head, std::span<const std::int32_t> blocks) const;

 private:
  std::int64_t n_head_, n_blocks_;
  HeadCache layout_;  // of head 0, with no blocks
  std::int64_t part_bytes_ = 0;
  MappedMemory memory_;
};

}  // namespace shardlm
