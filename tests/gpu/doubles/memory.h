// Memory of the CUDA runtime's double: which addresses are the device's, pinned, or neither.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>

#include <cuda_runtime_api.h>

namespace shardlm::doubles {

/// Pages between two forbidden ones, so that what runs far over either end faults; under
/// AddressSanitizer the exact end is known. File descriptor -1: an anonymous file of its own.
class Pages {
 public:
  Pages(std::size_t bytes, int descriptor);
  ~Pages();
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;

  bool ok() const { return data_ != nullptr; }
  char* data() const { return data_; }
  int descriptor() const { return descriptor_; }

 private:
  std::size_t bytes_, mapped_bytes_;
  int descriptor_;
  bool owns_descriptor_;
  char* map_ = nullptr;
  char* data_ = nullptr;
};

enum class Place { pageable, pinned, device, opened };

struct FreeHost {
  void operator()(char* p) const;
};

struct Allocation {
  Place place = Place::device;
  std::size_t bytes = 0, charged = 0;
  int device = 0;
  std::uint64_t serial = 0;      // of this process: tells a reused descriptor from an old one
  std::unique_ptr<Pages> pages;  // device, opened
  std::unique_ptr<char, FreeHost> host;  // pinned
  int references = 1;                    // opened
};

class Memory {
 public:
  /// Where n bytes from p lie; nothing if they reach over the end of an allocation.
  std::optional<Place> place(const void* p, std::size_t n);
  bool on_device(const void* p, std::size_t n);
  /// The allocation that holds p, or null. Hold mutex().
  const Allocation* holding(const void* p, const char** start = nullptr) const;

  std::mutex& mutex() { return mutex_; }
  std::map<const char*, Allocation>& allocations() { return allocations_; }
  std::size_t& used(int device) { return used_[device]; }
  std::uint64_t next_serial() { return ++serial_; }

 private:
  std::mutex mutex_;
  std::map<const char*, Allocation> allocations_;  // by address
  std::map<int, std::size_t> used_;                // bytes, by device
  std::uint64_t serial_ = 0;
};

/// Never destroyed, as runtime().
Memory& memory();

/// The memory of each device, bytes.
std::size_t device_bytes();

}  // namespace shardlm::doubles
