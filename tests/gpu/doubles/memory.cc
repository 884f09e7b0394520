#include "tests/gpu/doubles/memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <new>

#include "tests/gpu/doubles/runtime.h"
#include "tests/gpu/emulation/sanitizers.h"

namespace shardlm::doubles {
namespace {

constexpr std::size_t kDefaultDeviceBytes = std::size_t{1} << 30;
constexpr std::size_t kGranularity = 512;  // what an allocation is rounded up to

std::size_t round_up(std::size_t n, std::size_t to) { return (n + to - 1) / to * to; }

// 0xff.. is NaN in every floating-point type: what nobody wrote is seen. Not the kernel's own
// write, so ThreadSanitizer need not remember it.
void fill_with_nan(void* p, std::size_t bytes) {
  const emu::Quiet quiet;
  std::memset(p, 0xff, bytes);
}

// As fill_with_nan; the address the caller gets.
cudaError_t keep(Allocation allocation, char* at, void** out) {
  fill_with_nan(at, allocation.bytes);
  Memory& m = memory();
  const Lock lock(m.mutex());
  allocation.serial = m.next_serial();
  m.allocations().emplace(at, std::move(allocation));
  *out = at;
  return cudaSuccess;
}

bool charge(int device, std::size_t bytes) {
  Memory& m = memory();
  const Lock lock(m.mutex());
  if (m.used(device) + bytes > device_bytes()) return false;
  m.used(device) += bytes;
  return true;
}

cudaError_t release(void* p, Place place) {
  Memory& m = memory();
  Allocation freed;  // its memory goes when the lock is open again
  const Lock lock(m.mutex());
  const auto it = m.allocations().find(static_cast<const char*>(p));
  if (it == m.allocations().end() || it->second.place != place) return cudaErrorInvalidValue;
  m.used(it->second.device) -= it->second.charged;
  freed = std::move(it->second);
  m.allocations().erase(it);
  return cudaSuccess;
}

}  // namespace

Pages::Pages(std::size_t bytes, int descriptor)
    : bytes_(bytes), descriptor_(descriptor), owns_descriptor_(descriptor < 0) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  const std::size_t rounded = round_up(bytes, page);
  mapped_bytes_ = rounded + 2 * page;
  if (owns_descriptor_) {
    descriptor_ = memfd_create("emulated-gpu-memory", MFD_CLOEXEC);
    if (descriptor_ < 0 || ftruncate(descriptor_, static_cast<off_t>(rounded)) != 0) return;
  }
  void* map = mmap(nullptr, mapped_bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (map == MAP_FAILED) return;
  map_ = static_cast<char*>(map);
  void* data =
      mmap(map_ + page, rounded, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, descriptor_, 0);
  if (data == MAP_FAILED) return;
  data_ = static_cast<char*>(data);
#if defined(SHARDLM_EMU_ASAN)
  ASAN_POISON_MEMORY_REGION(data_ + bytes, rounded - bytes);
#endif
}

Pages::~Pages() {
#if defined(SHARDLM_EMU_ASAN)
  if (map_ != nullptr) ASAN_UNPOISON_MEMORY_REGION(map_, mapped_bytes_);
#endif
  if (map_ != nullptr) munmap(map_, mapped_bytes_);
  if (owns_descriptor_ && descriptor_ >= 0) close(descriptor_);
}

void FreeHost::operator()(char* p) const { std::free(p); }

Memory& memory() {
  alignas(Memory) static std::byte storage[sizeof(Memory)];
  static Memory* const m = std::construct_at(reinterpret_cast<Memory*>(storage));
  return *m;
}

const Allocation* Memory::holding(const void* p, const char** start) const {
  const char* at = static_cast<const char*>(p);
  auto it = allocations_.upper_bound(at);
  if (it == allocations_.begin()) return nullptr;
  --it;
  if (at >= it->first + it->second.bytes) return nullptr;
  if (start != nullptr) *start = it->first;
  return &it->second;
}

std::optional<Place> Memory::place(const void* p, std::size_t n) {
  const Lock lock(mutex_);
  const char* start = nullptr;
  const Allocation* a = holding(p, &start);
  if (a == nullptr) return Place::pageable;
  if (static_cast<const char*>(p) + n > start + a->bytes) return std::nullopt;
  return a->place;
}

bool Memory::on_device(const void* p, std::size_t n) {
  const std::optional<Place> where = place(p, n);
  return where == Place::device || where == Place::opened;
}

std::size_t device_bytes() {
  const char* text = std::getenv("SHARDLM_FAKE_GPU_BYTES");
  return text == nullptr ? kDefaultDeviceBytes : std::strtoull(text, nullptr, 10);
}

}  // namespace shardlm::doubles

using namespace shardlm::doubles;

extern "C" {

cudaError_t cudaMalloc(void** p, std::size_t bytes) {
  if (const cudaError_t error = enter_unsafe("cudaMalloc")) return error;
  *p = nullptr;
  if (bytes == 0) return cudaSuccess;
  Allocation a;
  a.bytes = bytes, a.charged = round_up(bytes, kGranularity), a.device = current_device();
  if (!charge(a.device, a.charged)) return report(cudaErrorMemoryAllocation);
  a.pages = std::make_unique<Pages>(bytes, -1);
  if (!a.pages->ok()) return report(cudaErrorMemoryAllocation);
  char* at = a.pages->data();
  return keep(std::move(a), at, p);
}

cudaError_t cudaFree(void* p) {
  if (const cudaError_t error = enter_unsafe("cudaFree")) return error;
  if (p == nullptr) return cudaSuccess;
  wait_for_device(current_device());  // as the real one does, though it does not promise it
  return report(release(p, Place::device));
}

cudaError_t cudaHostAlloc(void** p, std::size_t bytes, unsigned) {
  if (const cudaError_t error = enter_unsafe("cudaHostAlloc")) return error;
  *p = nullptr;
  if (bytes == 0) return cudaSuccess;
  void* memory_ = nullptr;
  if (posix_memalign(&memory_, 512, bytes) != 0) return report(cudaErrorMemoryAllocation);
  Allocation a;
  a.place = Place::pinned, a.bytes = bytes, a.device = current_device();
  a.host.reset(static_cast<char*>(memory_));
  return keep(std::move(a), static_cast<char*>(memory_), p);
}

cudaError_t cudaMallocHost(void** p, std::size_t bytes) {
  return cudaHostAlloc(p, bytes, cudaHostAllocDefault);
}

cudaError_t cudaFreeHost(void* p) {
  if (const cudaError_t error = enter_unsafe("cudaFreeHost")) return error;
  if (p == nullptr) return cudaSuccess;
  wait_for_device(current_device());
  return report(release(p, Place::pinned));
}

cudaError_t cudaHostGetDevicePointer(void** device, void* host, unsigned flags) {
  if (const cudaError_t error = enter("cudaHostGetDevicePointer")) return error;
  if (flags != 0 || memory().place(host, 1) != Place::pinned) return report(cudaErrorInvalidValue);
  *device = host;  // one address space
  return cudaSuccess;
}

cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  if (const cudaError_t error = enter("cudaMemGetInfo")) return error;
  Memory& m = memory();
  const Lock lock(m.mutex());
  *total = device_bytes();
  const std::size_t used = m.used(current_device());
  *free = *total > used ? *total - used : 0;
  return cudaSuccess;
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* p) {
  if (const cudaError_t error = enter("cudaPointerGetAttributes")) return error;
  Memory& m = memory();
  const Lock lock(m.mutex());
  *attributes = cudaPointerAttributes{};
  const Allocation* a = m.holding(p);
  if (a == nullptr) {
    attributes->type = cudaMemoryTypeUnregistered;
    attributes->device = -1;
    return cudaSuccess;
  }
  attributes->type = a->place == Place::pinned ? cudaMemoryTypeHost : cudaMemoryTypeDevice;
  attributes->device = a->device;
  attributes->devicePointer = const_cast<void*>(p);
  if (a->place == Place::pinned) attributes->hostPointer = const_cast<void*>(p);
  return cudaSuccess;
}

}  // extern "C"
