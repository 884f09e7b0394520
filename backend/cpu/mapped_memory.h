// Large pieces of memory, straight from the system.
#pragma once

#include <cstddef>
#include <string_view>

namespace shardlm {

/// Zero-filled memory whose pages exist from their first use on, 64-byte aligned (2 MiB aligned,
/// with huge pages asked for, where it pays).
class MappedMemory {
 public:
  MappedMemory() = default;
  /// `purpose` names it in the message if there is none left (ExitCode::resources).
  MappedMemory(std::size_t bytes, std::string_view purpose);
  ~MappedMemory();
  MappedMemory(MappedMemory&& other) noexcept;
  MappedMemory& operator=(MappedMemory&& other) noexcept;

  float* floats() const { return static_cast<float*>(data_); }
  std::byte* data() const { return static_cast<std::byte*>(data_); }
  std::size_t bytes() const { return bytes_; }

 private:
  void* map_ = nullptr;  // what the system gave: data_ with room for its alignment before it
  std::size_t map_bytes_ = 0;
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
};

/// a * b, and a message that names `purpose` (ExitCode::resources) if it does not fit.
std::size_t checked_product(std::size_t a, std::size_t b, std::string_view purpose);

}  // namespace shardlm
