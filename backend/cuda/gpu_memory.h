// Memory instructions that C++ has no words for: PTX on the device, emulated on the host. Include
// gpu.h, not this file.
#pragma once

#include <cstddef>
#include <cstdint>

#if defined(__CUDACC__)
#define GPU_SITE
#define GPU_SITE_COMMA
#else
// The emulation names the caller's line in its errors.
#define GPU_SITE ::shardlm::emu::Site site = ::shardlm::emu::Site::current()
#define GPU_SITE_COMMA , GPU_SITE
#endif

namespace shardlm::gpu {

/// Starts a copy of 16 bytes from global to shared memory, both 16-byte aligned. It has arrived
/// after cp_async_wait for its group, and other threads see it after a __syncthreads after that.
__device__ __forceinline__ void cp_async_16(void* smem, const void* gmem GPU_SITE_COMMA) {
#if defined(__CUDA_ARCH__)
  const auto s = static_cast<unsigned>(__cvta_generic_to_shared(smem));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;\n" ::"r"(s), "l"(gmem) : "memory");
#elif !defined(__CUDACC__)
  emu::cp_async_16(smem, gmem, 16, site);
#endif
}

/// As cp_async_16, but only the first `bytes` (0 to 16) are read; the others become zero. The
/// address must be aligned even where nothing is read.
__device__ __forceinline__ void cp_async_16_zero_fill(void* smem, const void* gmem,
                                                      unsigned bytes GPU_SITE_COMMA) {
#if defined(__CUDA_ARCH__)
  const auto s = static_cast<unsigned>(__cvta_generic_to_shared(smem));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(s), "l"(gmem), "r"(bytes)
               : "memory");
#elif !defined(__CUDACC__)
  emu::cp_async_16(smem, gmem, bytes, site);
#endif
}

/// Closes the group of the copies started since the last commit.
__device__ __forceinline__ void cp_async_commit() {
#if defined(__CUDA_ARCH__)
  asm volatile("cp.async.commit_group;\n" ::: "memory");
#elif !defined(__CUDACC__)
  emu::cp_async_commit();
#endif
}

/// Waits for this thread's groups, but for the newest `Keep`.
template <int Keep>
__device__ __forceinline__ void cp_async_wait() {
#if defined(__CUDA_ARCH__)
  asm volatile("cp.async.wait_group %0;\n" ::"n"(Keep) : "memory");
#elif !defined(__CUDACC__)
  emu::cp_async_wait(Keep);
#endif
}

// Flags that other GPUs, other processes or the host (in mapped memory) look at: a release store,
// an acquire load.
__device__ __forceinline__ void st_release_sys(std::uint32_t* p, std::uint32_t v) {
#if defined(__CUDA_ARCH__)
  asm volatile("st.release.sys.u32 [%0], %1;" ::"l"(p), "r"(v) : "memory");
#elif !defined(__CUDACC__)
  emu::store_release(p, v);
#endif
}
__device__ __forceinline__ void st_release_sys(unsigned long long* p, unsigned long long v) {
#if defined(__CUDA_ARCH__)
  asm volatile("st.release.sys.u64 [%0], %1;" ::"l"(p), "l"(v) : "memory");
#elif !defined(__CUDACC__)
  emu::store_release(p, v);
#endif
}
__device__ __forceinline__ std::uint32_t ld_acquire_sys(const std::uint32_t* p) {
  std::uint32_t v = 0;
#if defined(__CUDA_ARCH__)
  asm volatile("ld.acquire.sys.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
#elif !defined(__CUDACC__)
  v = emu::load_acquire(p);
#endif
  return v;
}
__device__ __forceinline__ unsigned long long ld_acquire_sys(const unsigned long long* p) {
  unsigned long long v = 0;
#if defined(__CUDA_ARCH__)
  asm volatile("ld.acquire.sys.u64 %0, [%1];" : "=l"(v) : "l"(p) : "memory");
#elif !defined(__CUDACC__)
  v = emu::load_acquire(p);
#endif
  return v;
}

/// What a waiting loop does between two looks.
__device__ __forceinline__ void spin_pause() {
#if defined(__CUDA_ARCH__)
  __nanosleep(64);
#elif !defined(__CUDACC__)
  emu::spin_pause();
#endif
}

/// Nanoseconds since some moment, the same for all blocks; steps of up to a microsecond.
__device__ __forceinline__ std::uint64_t global_timer() {
  std::uint64_t ns = 0;
#if defined(__CUDA_ARCH__)
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
#elif !defined(__CUDACC__)
  ns = emu::global_timer();
#endif
  return ns;
}

/// 16 bytes as elements: 4 of float, 8 of the half types.
template <class T>
struct alignas(16) Vector {
  static constexpr int kSize = static_cast<int>(16 / sizeof(T));
  T value[kSize];
};

namespace detail {
/// The same 16 bytes, as the registers of a wide load or store.
template <class T>
union VectorBits {
  __device__ __forceinline__ VectorBits() : words{0, 0, 0, 0} {}
  uint4 words;
  Vector<T> vector;
};
}  // namespace detail

/// Loads 16 aligned bytes that nobody writes while the kernel runs (the non-coherent path).
template <class T>
__device__ __forceinline__ Vector<T> load_vector(const T* p GPU_SITE_COMMA) {
  detail::VectorBits<T> bits;
#if defined(__CUDA_ARCH__)
  asm volatile("ld.global.nc.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(bits.words.x), "=r"(bits.words.y), "=r"(bits.words.z), "=r"(bits.words.w)
               : "l"(__cvta_generic_to_global(p)));
#elif !defined(__CUDACC__)
  bits.words = emu::load_16(p, site);
#endif
  return bits.vector;
}

/// As load_vector, of memory (global, shared or a peer's) that may have been written before in the
/// same kernel.
template <class T>
__device__ __forceinline__ Vector<T> load_vector_coherent(const T* p GPU_SITE_COMMA) {
  detail::VectorBits<T> bits;
#if defined(__CUDA_ARCH__)
  asm volatile("ld.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(bits.words.x), "=r"(bits.words.y), "=r"(bits.words.z), "=r"(bits.words.w)
               : "l"(p)
               : "memory");
#elif !defined(__CUDACC__)
  bits.words = emu::load_16(p, site);
#endif
  return bits.vector;
}

/// Stores 16 bytes to an aligned address.
template <class T>
__device__ __forceinline__ void store_vector(T* p, const Vector<T>& v GPU_SITE_COMMA) {
  detail::VectorBits<T> bits;
  bits.vector = v;
#if defined(__CUDA_ARCH__)
  asm volatile("st.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(p), "r"(bits.words.x), "r"(bits.words.y),
               "r"(bits.words.z), "r"(bits.words.w)
               : "memory");
#elif !defined(__CUDACC__)
  emu::store_16(p, bits.words, site);
#endif
}

}  // namespace shardlm::gpu
