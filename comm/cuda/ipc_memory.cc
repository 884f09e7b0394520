#include "comm/cuda/ipc_memory.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <optional>

#include "backend/cuda/check.h"
#include "backend/cuda/memory.h"
#include "base/error.h"
#include "comm/agreement.h"
#include "comm/cuda/ipc_all_reduce.h"

namespace shardlm::cuda {
namespace {

// CUDA cuts small allocations from common pieces of 2 MiB, and a handle stands for the whole piece:
// this memory gets pieces of its own.
constexpr std::size_t kLeastBytes = std::size_t{2} << 20;

/// Memory of this rank and the mappings of the others.
class MappedBlocks {
 public:
  explicit MappedBlocks(std::size_t bytes)
      : own_(std::max(bytes, kLeastBytes), "sums over the ranks") {}
  ~MappedBlocks() {
    for (void* mapped : mapped_) cudaIpcCloseMemHandle(mapped);
  }
  MappedBlocks(const MappedBlocks&) = delete;
  MappedBlocks& operator=(const MappedBlocks&) = delete;

  std::byte* own() const { return own_.data(); }
  std::byte* map(const cudaIpcMemHandle_t& handle) {
    void* mapped = nullptr;
    check_cuda(cudaIpcOpenMemHandle(&mapped, handle, cudaIpcMemLazyEnablePeerAccess),
               "mapping another rank's memory");
    mapped_.push_back(mapped);
    return static_cast<std::byte*>(mapped);
  }

 private:
  DeviceBlock own_;
  std::vector<void*> mapped_;
};

// What went wrong, if anything, for agree().
template <class Work>
std::optional<Error> try_to(Work&& work) {
  try {
    work();
  } catch (const Error& error) {
    return error;
  }
  return std::nullopt;
}

std::vector<std::byte> all_gather(Communicator& host, std::span<const std::byte> mine) {
  std::vector<std::vector<std::byte>> parts;
  host.gather({SiteKind::load}, mine, parts, 0);
  std::vector<std::byte> all;
  for (const std::vector<std::byte>& part : parts) all.insert(all.end(), part.begin(), part.end());
  host.broadcast({SiteKind::load}, all, 0);
  return all;
}

}  // namespace

std::size_t ipc_bytes(std::size_t slot_bytes) {
  check(slot_bytes > 0 && slot_bytes % 16 == 0, "slots are a positive multiple of 16 bytes");
  return kIpcSlots + 2 * slot_bytes;
}

IpcMemory share_ipc_memory(Communicator& host, CudaBackend& backend, std::size_t slot_bytes) {
  IpcMemory memory{.base = {}, .bytes_each = ipc_bytes(slot_bytes)};
  std::shared_ptr<MappedBlocks> blocks;
  cudaIpcMemHandle_t handle{};
  agree(host, try_to([&] {
          blocks = std::make_shared<MappedBlocks>(memory.bytes_each);
          check_cuda(cudaMemsetAsync(blocks->own(), 0, sizeof(IpcHeader), backend.stream().get()),
                     "clearing memory");
          backend.synchronize();
          check_cuda(cudaIpcGetMemHandle(&handle, blocks->own()),
                     "sharing memory with other ranks");
        }));
  const std::vector<std::byte> handles = all_gather(host, std::as_bytes(std::span(&handle, 1)));
  agree(host, try_to([&] {
          for (int r = 0; r < host.size(); ++r) {
            cudaIpcMemHandle_t theirs{};
            std::memcpy(&theirs, handles.data() + static_cast<std::size_t>(r) * sizeof theirs,
                        sizeof theirs);
            // A process does not get a mapping of its own memory.
            memory.base.push_back(r == host.rank() ? blocks->own() : blocks->map(theirs));
          }
        }));
  memory.owner = std::move(blocks);
  return memory;
}

}  // namespace shardlm::cuda
