#include "backend/cuda/memory.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include "backend/cuda/check.h"
#include "base/error.h"

namespace shardlm::cuda {
namespace {

class DeviceBuffer final : public Buffer {
 public:
  explicit DeviceBuffer(std::size_t bytes) : block_(bytes, "activations") {}
  std::byte* data() const override { return block_.data(); }
  std::size_t bytes() const override { return block_.bytes(); }

 private:
  DeviceBlock block_;
};

[[noreturn]] void fail_out_of_memory(std::size_t bytes, const char* purpose) {
  cudaGetLastError();
  std::size_t free = 0, total = 0;
  cudaMemGetInfo(&free, &total);
  fail(ExitCode::resources,
       {.what = fmt::format("out of GPU memory for {}", purpose),
        .expected = fmt::format("{} bytes", bytes),
        .found = fmt::format("{} bytes free of {}", free, total),
        .remedy = "use more ranks, a smaller --dtype or --kv-dtype, or shorter or fewer texts"});
}

}  // namespace

DeviceBlock::DeviceBlock(std::size_t bytes, const char* purpose) : bytes_(bytes) {
  if (bytes == 0) return;
  void* data = nullptr;
  const cudaError_t code = cudaMalloc(&data, bytes);
  if (code == cudaErrorMemoryAllocation) fail_out_of_memory(bytes, purpose);
  check_cuda(code, "allocating memory");
  data_.reset(static_cast<std::byte*>(data));
}

void DeviceBlock::Deleter::operator()(std::byte* data) const { cudaFree(data); }

PinnedBlock::PinnedBlock(std::size_t bytes) : bytes_(bytes) {
  if (bytes == 0) return;
  void* data = nullptr;
  check_cuda(cudaHostAlloc(&data, bytes, cudaHostAllocDefault), "allocating page-locked memory");
  data_.reset(static_cast<std::byte*>(data));
}

void PinnedBlock::Deleter::operator()(std::byte* data) const { cudaFreeHost(data); }

std::shared_ptr<Buffer> make_device_buffer(std::size_t bytes) {
  return std::make_shared<DeviceBuffer>(bytes);
}

}  // namespace shardlm::cuda
