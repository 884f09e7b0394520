// Memory of the device, and host memory that the device copies from and to without a detour.
#pragma once

#include <cstddef>
#include <memory>

#include "backend/tensor.h"

namespace shardlm::cuda {

/// Device memory. Out of memory is Error(ExitCode::resources) that says what it was for and how
/// much is free.
class DeviceBlock {
 public:
  DeviceBlock() = default;
  /// `purpose`: "a weight matrix", for the message.
  DeviceBlock(std::size_t bytes, const char* purpose);
  std::byte* data() const { return data_.get(); }
  std::size_t bytes() const { return bytes_; }

 private:
  struct Deleter {
    void operator()(std::byte* data) const;
  };
  std::unique_ptr<std::byte, Deleter> data_;
  std::size_t bytes_ = 0;
};

/// Page-locked host memory.
class PinnedBlock {
 public:
  PinnedBlock() = default;
  explicit PinnedBlock(std::size_t bytes);
  std::byte* data() const { return data_.get(); }
  std::size_t bytes() const { return bytes_; }

 private:
  struct Deleter {
    void operator()(std::byte* data) const;
  };
  std::unique_ptr<std::byte, Deleter> data_;
  std::size_t bytes_ = 0;
};

/// The memory of a tensor: what a BufferPool of the device is made of.
std::shared_ptr<Buffer> make_device_buffer(std::size_t bytes);

}  // namespace shardlm::cuda
