#include "backend/cpu/mapped_memory.h"

#include <sys/mman.h>

#include <cstdint>
#include <limits>
#include <string>
#include <utility>

#include "base/error.h"

namespace shardlm {
namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20;

[[noreturn]] void fail_no_memory(std::string_view purpose, const std::string& wanted) {
  fail(ExitCode::resources, {.what = "memory for " + std::string(purpose),
                             .expected = wanted,
                             .found = "the system has not enough",
                             .remedy = "use more ranks, a smaller model or a smaller KV cache"});
}

}  // namespace

MappedMemory::MappedMemory(std::size_t bytes, std::string_view purpose) : bytes_(bytes) {
  if (bytes == 0) return;
  const std::size_t slack = bytes >= kHugePage ? kHugePage : 0;
  if (bytes > std::numeric_limits<std::size_t>::max() - slack) {
    fail_no_memory(purpose, std::to_string(bytes) + " bytes");
  }
  map_bytes_ = bytes + slack;
  map_ = mmap(nullptr, map_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (map_ == MAP_FAILED) fail_no_memory(purpose, std::to_string(bytes) + " bytes");
  data_ = map_;
  if (slack == 0) return;
  const std::size_t offset =
      (kHugePage - reinterpret_cast<std::uintptr_t>(map_) % kHugePage) % kHugePage;
  data_ = static_cast<std::byte*>(map_) + offset;
  // A request only: a system without huge pages refuses it and nothing but speed is lost.
  madvise(data_, bytes, MADV_HUGEPAGE);
}

MappedMemory::~MappedMemory() {
  if (map_ != nullptr) munmap(map_, map_bytes_);
}

MappedMemory::MappedMemory(MappedMemory&& other) noexcept
    : map_(std::exchange(other.map_, nullptr)),
      map_bytes_(std::exchange(other.map_bytes_, 0)),
      data_(std::exchange(other.data_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)) {}

MappedMemory& MappedMemory::operator=(MappedMemory&& other) noexcept {
  std::swap(map_, other.map_);
  std::swap(map_bytes_, other.map_bytes_);
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

std::size_t checked_product(std::size_t a, std::size_t b, std::string_view purpose) {
  std::size_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) {
    fail_no_memory(purpose, std::to_string(a) + " times " + std::to_string(b) + " bytes");
  }
  return product;
}

}  // namespace shardlm
