#include "backend/buffer_pool.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "base/error.h"

namespace shardlm {
namespace {

constexpr std::size_t kSmallest = 256;  // bytes
// A request may take a buffer up to this many times its size: a pool that has served prompts of
// many lengths then stays near the size of the largest, and a token's vectors do not occupy
// the memory that a prompt will need again.
constexpr std::size_t kLargestWaste = 4;

// Rounds up to four sizes an octave, so that nearly equal steps share buffers.
std::size_t size_class(std::size_t bytes) {
  if (bytes <= kSmallest) return kSmallest;
  const std::size_t step = std::max<std::size_t>(std::bit_floor(bytes - 1) / 4, 64);
  return (bytes + step - 1) / step * step;
}

}  // namespace

std::shared_ptr<Buffer> BufferPool::take(std::size_t bytes) {
  check(bytes < (std::size_t{1} << 62), "BufferPool: size out of range");
  const std::size_t wanted = size_class(bytes);
  const auto smaller = [](const std::shared_ptr<Buffer>& buffer, std::size_t size) {
    return buffer->bytes() < size;
  };
  const auto first = std::lower_bound(buffers_.begin(), buffers_.end(), wanted, smaller);
  for (auto it = first; it != buffers_.end(); ++it) {
    if ((*it)->bytes() / kLargestWaste > wanted) break;
    if (it->use_count() == 1) return *it;
  }
  return *buffers_.insert(first, make_(wanted));
}

}  // namespace shardlm
