#include "backend/cpu/kv_storage.h"

#include "base/error.h"

namespace shardlm {
namespace {

constexpr const char* kPurpose = "the KV cache";
// Kernels read whole vectors: the last value vector may reach this far behind its row.
constexpr std::size_t kSlackBytes = 256;

std::size_t kv_bytes(std::int64_t n_head, std::int64_t head_dim, std::int64_t n_blocks,
                     std::int64_t block_tokens) {
  check(n_head >= 0 && head_dim >= 0 && n_blocks >= 0, "KV storage: a negative size");
  check(block_tokens > 0 && block_tokens % CpuKvStorage::kTokenGroup == 0,
        "KV storage: tokens of a block must be a multiple of 16");
  std::size_t bytes = 2 * sizeof(float);
  for (const std::int64_t factor : {n_head, head_dim, n_blocks, block_tokens}) {
    bytes = checked_product(bytes, static_cast<std::size_t>(factor), kPurpose);
  }
  return bytes == 0 ? 0 : bytes + kSlackBytes;
}

}  // namespace

CpuKvStorage::CpuKvStorage(std::int64_t n_head, std::int64_t head_dim, std::int64_t n_blocks,
                           std::int64_t block_tokens)
    : n_head_(n_head),
      head_dim_(head_dim),
      n_blocks_(n_blocks),
      block_tokens_(block_tokens),
      memory_(kv_bytes(n_head, head_dim, n_blocks, block_tokens), kPurpose) {}

}  // namespace shardlm
