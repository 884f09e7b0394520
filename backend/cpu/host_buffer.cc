#include "backend/cpu/host_buffer.h"

#include <memory>
#include <vector>

#include "backend/cpu/mapped_memory.h"

namespace shardlm {
namespace {

constexpr std::size_t kAlignment = 64;
constexpr std::size_t kHugePage = std::size_t{2} << 20;

class HostBuffer final : public Buffer {
 public:
  explicit HostBuffer(std::size_t bytes) : bytes_(bytes) {
    if (bytes >= kHugePage) {
      pages_ = MappedMemory(bytes, "activations");
      data_ = reinterpret_cast<std::byte*>(pages_.floats());
      return;
    }
    storage_.resize(bytes + kAlignment);
    void* start = storage_.data();
    std::size_t room = storage_.size();
    data_ = static_cast<std::byte*>(std::align(kAlignment, bytes, start, room));
  }
  std::byte* data() const override { return data_; }
  std::size_t bytes() const override { return bytes_; }

 private:
  std::size_t bytes_;
  std::vector<std::byte> storage_;
  MappedMemory pages_;
  std::byte* data_ = nullptr;
};

}  // namespace

std::shared_ptr<Buffer> make_host_buffer(std::size_t bytes) {
  return std::make_shared<HostBuffer>(bytes);
}

}  // namespace shardlm
