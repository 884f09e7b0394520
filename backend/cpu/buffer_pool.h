// Activations come and go with every step: their memory is kept and given out again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "backend/tensor.h"

namespace shardlm {

/// Buffers by size. One is free again when no tensor holds it. For one thread.
class BufferPool {
 public:
  /// A buffer of at least `floats` floats, 64-byte aligned: the smallest free one that is not far
  /// too large, else a new one.
  std::shared_ptr<Buffer> take(std::int64_t floats);
  std::size_t allocations() const { return buffers_.size(); }

 private:
  std::vector<std::shared_ptr<Buffer>> buffers_;  // by capacity
};

}  // namespace shardlm
