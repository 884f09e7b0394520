// Keys and values of this rank's heads: one storage of equal blocks for each layer.
#pragma once

#include <memory>
#include <vector>

#include "backend/backend.h"

namespace shardlm {

class KvCache {
 public:
  KvCache() = default;
  KvCache(Backend& backend, std::int64_t n_layer, std::int64_t n_head, std::int64_t head_dim,
          std::int64_t n_blocks, std::int64_t block_tokens) {
    for (std::int64_t i = 0; i < n_layer; ++i) {
      layers_.push_back(backend.make_kv_storage(n_head, head_dim, n_blocks, block_tokens));
    }
  }
  KvStorage& layer(std::size_t i) { return *layers_[i]; }

 private:
  std::vector<std::unique_ptr<KvStorage>> layers_;
};

}  // namespace shardlm
