// A short pattern of bytes that looks as long as is asked for.
#pragma once

#include <cstddef>
#include <span>

namespace shardlm {

/// The pattern again and again in one stretch of addresses, of which memory holds it once: the
/// stand-in for tensors of any size.
class RepeatedMemory {
 public:
  /// As many bytes as a pattern must be a multiple of: a page of the system.
  static std::size_t granule();

  /// At least `bytes` bytes. Error(resources) with the system's reason if there is no such room.
  RepeatedMemory(std::span<const std::byte> pattern, std::size_t bytes);
  ~RepeatedMemory();
  RepeatedMemory(const RepeatedMemory&) = delete;
  RepeatedMemory& operator=(const RepeatedMemory&) = delete;

  std::span<const std::byte> bytes() const { return {static_cast<const std::byte*>(map_), size_}; }

 private:
  void* map_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace shardlm
