// CUDA IPC: device memory is an anonymous file, and a handle says which process has it open.
#include <fcntl.h>
#include <unistd.h>

#include <cstring>
#include <string>

#include "tests/gpu/doubles/runtime.h"

using namespace shardlm::doubles;

namespace {

// CUDA serves small allocations from shared blocks of this size, and a handle stands for the whole
// block: the address that a peer gets is then not that of the allocation. The double refuses.
constexpr std::size_t kLeastShareable = std::size_t{2} << 20;

struct Handle {
  int process = 0, descriptor = 0, device = 0;
  std::uint64_t bytes = 0, serial = 0;
  friend bool operator==(const Handle&, const Handle&) = default;
};
static_assert(sizeof(Handle) <= sizeof(cudaIpcMemHandle_t));

// What this process has opened: a handle opened twice is one mapping.
struct Opened {
  std::mutex mutex;
  std::map<const void*, Handle> by_address;
};
Opened& opened() {
  static Opened o;
  return o;
}

void* find_opened(const Handle& handle) {
  Opened& o = opened();
  const Lock lock(o.mutex);
  for (const auto& [address, h] : o.by_address)
    if (h == handle) return const_cast<void*>(address);
  return nullptr;
}

cudaError_t map_handle(const Handle& handle, void** p) {
  const std::string path =
      "/proc/" + std::to_string(handle.process) + "/fd/" + std::to_string(handle.descriptor);
  const int descriptor = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (descriptor < 0) return cudaErrorMapBufferObjectFailed;  // its owner is gone
  Allocation a;
  a.place = Place::opened, a.bytes = handle.bytes, a.device = handle.device;
  a.pages = std::make_unique<Pages>(handle.bytes, descriptor);
  close(descriptor);
  if (!a.pages->ok()) return cudaErrorMapBufferObjectFailed;
  *p = a.pages->data();
  {
    Memory& m = memory();
    const Lock lock(m.mutex());
    m.allocations().emplace(a.pages->data(), std::move(a));
  }
  Opened& o = opened();
  const Lock lock(o.mutex);
  o.by_address.emplace(*p, handle);
  return cudaSuccess;
}

}  // namespace

extern "C" {

cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t* handle, void* p) {
  if (const cudaError_t error = enter("cudaIpcGetMemHandle")) return error;
  Memory& m = memory();
  const Lock lock(m.mutex());
  const auto it = m.allocations().find(static_cast<const char*>(p));
  if (it == m.allocations().end() || it->second.place != Place::device ||
      it->second.bytes < kLeastShareable)
    return report(cudaErrorInvalidValue);
  const Allocation& a = it->second;
  const Handle h{getpid(), a.pages->descriptor(), a.device, a.bytes, a.serial};
  std::memset(handle, 0, sizeof *handle);
  std::memcpy(handle, &h, sizeof h);
  return cudaSuccess;
}

cudaError_t cudaIpcOpenMemHandle(void** p, cudaIpcMemHandle_t handle, unsigned flags) {
  if (const cudaError_t error = enter_unsafe("cudaIpcOpenMemHandle")) return error;
  if (flags != cudaIpcMemLazyEnablePeerAccess) return report(cudaErrorInvalidValue);
  Handle h;
  std::memcpy(static_cast<void*>(&h), &handle, sizeof h);
  if (h.bytes == 0) return report(cudaErrorInvalidValue);
  if (h.process == getpid()) return report(cudaErrorDeviceUninitialized);  // as CUDA: not its own
  if (h.device != current_device()) {
    int can = 0;
    if (const cudaError_t error = cudaDeviceCanAccessPeer(&can, current_device(), h.device))
      return error;
    if (can == 0) return report(cudaErrorPeerAccessUnsupported);
  }
  if (void* known = find_opened(h)) {
    Memory& m = memory();
    const Lock lock(m.mutex());
    ++m.allocations().at(static_cast<const char*>(known)).references;
    *p = known;
    return cudaSuccess;
  }
  return report(map_handle(h, p));
}

cudaError_t cudaIpcCloseMemHandle(void* p) {
  if (const cudaError_t error = enter_unsafe("cudaIpcCloseMemHandle")) return error;
  wait_for_device(current_device());
  {
    Memory& m = memory();
    const Lock lock(m.mutex());
    const auto it = m.allocations().find(static_cast<const char*>(p));
    if (it == m.allocations().end() || it->second.place != Place::opened)
      return report(cudaErrorInvalidValue);
    if (--it->second.references > 0) return cudaSuccess;
    m.allocations().erase(it);
  }
  Opened& o = opened();
  const Lock lock(o.mutex);
  o.by_address.erase(p);
  return cudaSuccess;
}

}  // extern "C"
