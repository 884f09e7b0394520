// Where keys and values of one layer stand.
#pragma once

#include <cstdint>

#include "backend/backend.h"
#include "backend/cpu/mapped_memory.h"

namespace shardlm {

/// Keys [block][head][head_dim][token of the block]: the scores of a block's tokens are sums down
/// the columns. Values [block][head][token of the block][head_dim]. Pages exist from first use on.
class CpuKvStorage final : public KvStorage {
 public:
  static constexpr std::int64_t kTokenGroup = 16;  ///< block_tokens is a multiple of this

  CpuKvStorage(std::int64_t n_head, std::int64_t head_dim, std::int64_t n_blocks,
               std::int64_t block_tokens);

  std::int64_t n_head() const override { return n_head_; }
  std::int64_t head_dim() const override { return head_dim_; }
  std::int64_t n_blocks() const override { return n_blocks_; }
  std::int64_t block_tokens() const override { return block_tokens_; }
  std::size_t bytes() const override { return memory_.bytes(); }

  float* keys() const { return memory_.floats(); }
  float* values() const { return memory_.floats() + n_blocks_ * block_floats(); }
  /// From one block to the next, in keys and in values.
  std::int64_t block_floats() const { return n_head_ * head_floats(); }
  /// From one head to the next inside a block.
  std::int64_t head_floats() const { return head_dim_ * block_tokens_; }

 private:
  std::int64_t n_head_, head_dim_, n_blocks_, block_tokens_;
  MappedMemory memory_;
};

}  // namespace shardlm
