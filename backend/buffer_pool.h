// Activations come and go with every step: their memory is kept and given out again.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "backend/tensor.h"

namespace shardlm {

/// Buffers by size. One is free again when no tensor holds it. For one thread.
class BufferPool {
 public:
  /// Makes a buffer of exactly `bytes` bytes (a size class: 256 or more).
  using Maker = std::function<std::shared_ptr<Buffer>(std::size_t bytes)>;

  explicit BufferPool(Maker make) : make_(std::move(make)) {}

  /// A buffer of at least `bytes` bytes: the smallest free one that is not far too large, else a
  /// new one.
  std::shared_ptr<Buffer> take(std::size_t bytes);
  std::size_t allocations() const { return buffers_.size(); }

 private:
  Maker make_;
  std::vector<std::shared_ptr<Buffer>> buffers_;  // by size
};

}  // namespace shardlm
