// Kernel launches: the hardware's limits, arguments by value, and the emulation's engine.
#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "tests/gpu/doubles/doubles.h"
#include "tests/gpu/doubles/runtime.h"
#include "tests/gpu/emulation/engine.h"

namespace shardlm::doubles {
namespace {

/// A launch's arguments, copied when it is issued, as CUDA does.
class Arguments {
 public:
  Arguments(const emu::KernelInfo& kernel, void** from) {
    for (std::size_t i = 0; i < kernel.sizes.size(); ++i) {
      const auto* bytes = static_cast<const std::byte*>(from[i]);
      values_.emplace_back(bytes, bytes + kernel.sizes[i]);
    }
    for (auto& value : values_) pointers_.push_back(value.data());
  }
  Arguments(const Arguments&) = delete;
  Arguments& operator=(const Arguments&) = delete;
  void** pointers() { return pointers_.data(); }

 private:
  std::vector<std::vector<std::byte>> values_;
  std::vector<void*> pointers_;
};

struct Call {
  const emu::KernelInfo* kernel;
  const void* function;
  void** arguments;
};

bool valid_shape(dim3 grid, dim3 block) {
  const std::size_t threads = std::size_t{block.x} * block.y * block.z;
  return grid.x > 0 && grid.y > 0 && grid.z > 0 && grid.x <= 0x7fffffffU && grid.y <= 65535 &&
         grid.z <= 65535 && threads > 0 && threads <= 1024 && block.z <= 64;
}

std::size_t allowed_shared(const void* function) {
  Runtime& r = runtime();
  const Lock lock(r.mutex);
  const auto it = r.dynamic_shared.find(function);
  return it == r.dynamic_shared.end() ? emu::kStaticSharedBytes : it->second;
}

cudaError_t check_stream(cudaStream_t stream) {
  const Lock lock(runtime().mutex);
  const CUstream_st* s = find_stream(stream);
  // A kernel runs on the current device; copies and events may cross.
  if (s == nullptr || s->device != current_device()) return cudaErrorInvalidResourceHandle;
  return cudaSuccess;
}

cudaError_t launch(const cudaLaunchConfig_t& config, const void* function, void** arguments) {
  const emu::KernelInfo* kernel = emu::find_kernel(function);
  if (kernel == nullptr) return cudaErrorInvalidDeviceFunction;  // not through gpu::launch
  if (config.numAttrs != 0) return cudaErrorNotSupported;
  if (!valid_shape(config.gridDim, config.blockDim)) return cudaErrorInvalidConfiguration;
  if (config.dynamicSmemBytes > allowed_shared(function)) return cudaErrorInvalidValue;
  if (const cudaError_t error = check_stream(config.stream)) return error;
  auto copied = std::make_shared<Arguments>(*kernel, arguments);
  return enqueue(config.stream, "kernel",
                 [=, copied = std::move(copied), grid = config.gridDim, block = config.blockDim,
                  bytes = config.dynamicSmemBytes] {
                   Call call{kernel, function, copied->pointers()};
                   emu::run_grid(
                       grid, block, bytes,
                       [](void* c) {
                         const Call& x = *static_cast<Call*>(c);
                         x.kernel->invoke(x.function, x.arguments);
                       },
                       &call);
                 });
}

}  // namespace
}  // namespace shardlm::doubles

using namespace shardlm::doubles;

extern "C" {

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* function,
                                void** arguments) {
  if (const cudaError_t error = enter("cudaLaunchKernelExC")) return error;
  return report(launch(*config, function, arguments));
}

cudaError_t cudaFuncSetAttribute(const void* function, cudaFuncAttribute attribute, int value) {
  if (const cudaError_t error = enter("cudaFuncSetAttribute")) return error;
  if (attribute == cudaFuncAttributePreferredSharedMemoryCarveout) return cudaSuccess;
  if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize || value < 0 ||
      static_cast<std::size_t>(value) > shardlm::emu::kSharedBytes)
    return report(cudaErrorInvalidValue);
  Runtime& r = runtime();
  const Lock lock(r.mutex);
  r.dynamic_shared[function] =
      std::max(static_cast<std::size_t>(value), shardlm::emu::kStaticSharedBytes);
  return cudaSuccess;
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* function,
                                                          int block_size, std::size_t shared) {
  if (const cudaError_t error = enter("cudaOccupancyMaxActiveBlocksPerMultiprocessor"))
    return error;
  if (block_size < 1 || block_size > 1024) return report(cudaErrorInvalidValue);
  *blocks = 0;
  if (shared > allowed_shared(function)) return cudaSuccess;
  // 2048 threads, 32 blocks, 228 KB of shared memory of which each block costs 1 KB more.
  const auto by_shared = static_cast<int>(228 * 1024 / (shared + 1024));
  *blocks = std::min({32, 2048 / block_size, by_shared});
  return cudaSuccess;
}

}  // extern "C"
