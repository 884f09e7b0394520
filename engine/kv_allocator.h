// Who holds which KV-cache blocks. The coordinator decides; every rank stores its own heads' keys
// and values in the blocks of the same numbers.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace shardlm {

/// Blocks 0 … n_blocks - 1 of `block_tokens` tokens each. Lowest free numbers are given first, so
/// that the same requests give the same blocks.
class KvAllocator {
 public:
  KvAllocator(std::int64_t n_blocks, std::int64_t block_tokens);

  std::int64_t n_blocks() const { return static_cast<std::int64_t>(used_.size()); }
  std::int64_t block_tokens() const { return block_tokens_; }
  std::int64_t n_free() const { return static_cast<std::int64_t>(free_.size()); }

  std::int64_t blocks_for(std::int64_t tokens) const;  ///< blocks that hold so many tokens
  bool can_reserve(std::int64_t tokens) const { return blocks_for(tokens) <= n_free(); }

  /// Blocks for so many tokens, in ascending order. More than are
  /// free is Error(ExitCode::resources) with both numbers; nothing is taken then.
  std::vector<std::int32_t> allocate(std::int64_t tokens);
  /// Takes back blocks. A block that is not given out is a bug; nothing is taken back then.
  void release(std::span<const std::int32_t> blocks);

 private:
  std::int64_t block_tokens_;
  std::vector<std::int32_t> free_;  // a heap, lowest in front
  std::vector<bool> used_;
};

}  // namespace shardlm
