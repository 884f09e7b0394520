#include "engine/kv_allocator.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <numeric>

#include "base/error.h"

namespace shardlm {

KvAllocator::KvAllocator(std::int64_t n_blocks, std::int64_t block_tokens)
    : block_tokens_(block_tokens) {
  check(n_blocks >= 0 && block_tokens > 0, "blocks hold tokens");
  free_.resize(static_cast<std::size_t>(n_blocks));
  std::iota(free_.begin(), free_.end(), 0);  // ascending is a heap already
  used_.resize(static_cast<std::size_t>(n_blocks), false);
}

std::int64_t KvAllocator::blocks_for(std::int64_t tokens) const {
  check(tokens >= 0, "a number of tokens");
  return tokens / block_tokens_ + (tokens % block_tokens_ != 0 ? 1 : 0);
}

std::vector<std::int32_t> KvAllocator::allocate(std::int64_t tokens) {
  const std::int64_t wanted = blocks_for(tokens);
  if (wanted > n_free()) {
    fail(ExitCode::resources,
         {.what = fmt::format("KV cache for {} tokens", tokens),
          .expected = fmt::format("{} blocks of {} tokens", wanted, block_tokens_),
          .found = fmt::format("{} free of {}", n_free(), n_blocks()),
          .remedy = "fewer or shorter sequences at a time"});
  }
  std::vector<std::int32_t> blocks;
  blocks.reserve(static_cast<std::size_t>(wanted));
  for (std::int64_t i = 0; i < wanted; ++i) {
    std::pop_heap(free_.begin(), free_.end(), std::greater<>());
    blocks.push_back(free_.back());
    free_.pop_back();
    used_[static_cast<std::size_t>(blocks.back())] = true;
  }
  return blocks;
}

void KvAllocator::release(std::span<const std::int32_t> blocks) {
  std::vector<bool> left = used_;
  for (const std::int32_t block : blocks) {
    check(block >= 0 && block < n_blocks(), "a block of this cache is released");
    check(left[static_cast<std::size_t>(block)], "a block is released once");
    left[static_cast<std::size_t>(block)] = false;
  }
  used_ = std::move(left);
  for (const std::int32_t block : blocks) {
    free_.push_back(block);
    std::push_heap(free_.begin(), free_.end(), std::greater<>());
  }
}

}  // namespace shardlm
