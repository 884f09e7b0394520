#include "backend/cpu/buffer_pool.h"

#include <algorithm>
#include <bit>
#include <new>
#include <string>
#include <utility>

#include "backend/cpu/mapped_memory.h"
#include "base/error.h"

namespace shardlm {
namespace {

constexpr std::size_t kAlignment = 64;
constexpr std::int64_t kSmallest = 64;  // floats
// A request may take a buffer up to this many times its size: a pool that has served prompts of
// many lengths then stays near the size of the largest, and a token's vectors do not occupy
// the memory that a prompt will need again.
constexpr std::int64_t kLargestWaste = 4;

class HostBuffer final : public Buffer {
 public:
  explicit HostBuffer(std::int64_t floats) : capacity_(floats) {
    // Small buffers from the allocator, large ones from the system: with huge pages.
    const std::size_t bytes = static_cast<std::size_t>(floats) * sizeof(float);
    if (bytes >= (std::size_t{2} << 20)) {
      pages_ = MappedMemory(bytes, "activations");
    } else {
      storage_.resize(static_cast<std::size_t>(floats) + kAlignment / sizeof(float));
      void* start = storage_.data();
      std::size_t room = storage_.size() * sizeof(float);
      small_ = static_cast<float*>(std::align(kAlignment, bytes, start, room));
    }
  }
  float* data() const override { return small_ != nullptr ? small_ : pages_.floats(); }
  std::int64_t capacity() const override { return capacity_; }

 private:
  std::int64_t capacity_;
  std::vector<float> storage_;
  float* small_ = nullptr;
  MappedMemory pages_;
};

// Rounds up to four sizes an octave, so that nearly equal steps share buffers.
std::int64_t size_class(std::int64_t floats) {
  if (floats <= kSmallest) return kSmallest;
  const auto octave = std::bit_floor(static_cast<std::uint64_t>(floats - 1));
  const auto step = static_cast<std::int64_t>(std::max<std::uint64_t>(octave / 4, 16));
  return (floats + step - 1) / step * step;
}

}  // namespace

std::shared_ptr<Buffer> BufferPool::take(std::int64_t floats) {
  check(floats >= 0 && floats < (std::int64_t{1} << 60), "BufferPool: size out of range");
  const std::int64_t wanted = size_class(floats);
  const auto smaller = [](const std::shared_ptr<Buffer>& buffer, std::int64_t size) {
    return buffer->capacity() < size;
  };
  const auto first = std::lower_bound(buffers_.begin(), buffers_.end(), wanted, smaller);
  for (auto it = first; it != buffers_.end(); ++it) {
    if ((*it)->capacity() / kLargestWaste > wanted) break;
    if (it->use_count() == 1) return *it;
  }
  auto made = std::make_shared<HostBuffer>(wanted);
  return *buffers_.insert(first, std::move(made));
}

}  // namespace shardlm
