// The only header that kernels include for CUDA. Under nvcc it is plain CUDA; in host-only builds
// the same names are emulated (tests/gpu). Rules that keep both true: launch() instead of <<<>>>,
// GPU_SHARED instead of __shared__, PTX only inside the wrappers here, never the default stream.
#pragma once

#if defined(__CUDACC__)
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
/// A shared variable: GPU_SHARED(float, sums, [32]) is float sums[32].
#define GPU_SHARED(T, name, ...) __shared__ T name __VA_ARGS__
/// The launch's dynamic shared memory, 16-byte aligned bytes.
#define GPU_DYNAMIC_SHARED(name) extern __shared__ __align__(16) unsigned char name[]
#else
#include "cuda_emulation.h"
// A fresh NaN-filled heap object per block and variable: exact bounds for AddressSanitizer, no
// stale values from the block before. The key is one static per instantiation.
#define GPU_SHARED(T, name, ...)           \
  static const char name##_key = 0;        \
  using name##_type = T __VA_ARGS__;       \
  auto& name = *static_cast<name##_type*>( \
      ::shardlm::emu::shared_variable(&name##_key, sizeof(name##_type)))
#define GPU_DYNAMIC_SHARED(name) \
  unsigned char* const name = static_cast<unsigned char*>(::shardlm::emu::dynamic_shared())
#endif

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/error.h"

namespace shardlm::gpu {

/// A status other than success ends the run (ExitCode::resources), naming the call and the error.
inline void check(cudaError_t status, const char* call) {
  if (status == cudaSuccess) return;
  fail(ExitCode::resources,
       {.what = call,
        .found = std::string(cudaGetErrorName(status)) + " (" + cudaGetErrorString(status) + ")"});
}
#define GPU_CHECK(call) ::shardlm::gpu::check((call), #call)

struct Launch {
  dim3 grid{1}, block{1};
  std::size_t smem = 0;  ///< dynamic shared memory, bytes
  cudaStream_t stream = nullptr;
};

/// Replaces kernel<<<...>>>(...). cudaLaunchKernelEx is a C++ template that the CUDA headers give
/// to every compiler; it ends in the C call cudaLaunchKernelExC.
template <class... P, class... A>
void launch(const Launch& l, void (*kernel)(P...), A&&... args) {
#if !defined(__CUDACC__)
  emu::ensure_registered(kernel);
#endif
  cudaLaunchConfig_t config{};
  config.gridDim = l.grid;
  config.blockDim = l.block;
  config.dynamicSmemBytes = l.smem;
  config.stream = l.stream;
  check(cudaLaunchKernelEx(&config, kernel, static_cast<P>(args)...), "kernel launch");
}

/// Lets a kernel use up to `bytes` of dynamic shared memory: needed once, before the first launch
/// with more than 48 KB.
template <class... P>
void allow_dynamic_shared(void (*kernel)(P...), std::size_t bytes) {
  check(cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel),
                             cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes)),
        "cudaFuncSetAttribute(MaxDynamicSharedMemorySize)");
}

}  // namespace shardlm::gpu

#include "backend/cuda/gpu_memory.h"
#include "backend/cuda/gpu_mma.h"
