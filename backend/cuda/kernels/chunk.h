// Runs of consecutive elements as float32, for kernels: in 16-byte pieces where the memory allows.
#pragma once

#include <cstdint>
#include <cstring>

#include "backend/cuda/kernels/element.h"
#include "backend/cuda/kernels/view.h"

namespace shardlm::cuda {

/// Elements of T in 16 bytes: how many one thread takes at a time.
template <class T>
inline constexpr int kChunk = 16 / static_cast<int>(sizeof(T));

/// The address, told to the compiler to be a multiple of `Bytes`; the emulation refuses one that
/// is not.
template <int Bytes>
__device__ __forceinline__ void* aligned_to(void* p) {
#if !defined(__CUDACC__)
  emu::require_aligned(p, Bytes, "an access of several elements at once", emu::Site::current());
#endif
  return __builtin_assume_aligned(p, Bytes);
}
template <int Bytes>
__device__ __forceinline__ const void* aligned_to(const void* p) {
  return aligned_to<Bytes>(const_cast<void*>(p));
}

/// to = the `count` elements at `from`, then zeros. `vectors`: `from` is aligned to the smaller of
/// 16 bytes and N elements.
template <int N, class T>
__device__ __forceinline__ void load_chunk(const T* from, std::int64_t count, bool vectors,
                                           float (&to)[N]) {
  constexpr int kPiece = N < kChunk<T> ? N : kChunk<T>;
  static_assert(N % kPiece == 0);
  if (vectors && count >= N) {
    T piece[kPiece];
#pragma unroll
    for (int begin = 0; begin < N; begin += kPiece) {
      std::memcpy(piece, aligned_to<sizeof piece>(from + begin), sizeof piece);
#pragma unroll
      for (int i = 0; i < kPiece; ++i) to[begin + i] = to_float(piece[i]);
    }
  } else {
#pragma unroll
    for (int i = 0; i < N; ++i) to[i] = i < count ? to_float(from[i]) : 0.0F;
  }
}

/// The first `count` of `values` to `to`, rounded to T; `vectors` as for load_chunk.
template <int N, class T>
__device__ __forceinline__ void store_chunk(const float (&values)[N], std::int64_t count,
                                            bool vectors, T* to) {
  constexpr int kPiece = N < kChunk<T> ? N : kChunk<T>;
  static_assert(N % kPiece == 0);
  if (vectors && count >= N) {
    T piece[kPiece];
#pragma unroll
    for (int begin = 0; begin < N; begin += kPiece) {
#pragma unroll
      for (int i = 0; i < kPiece; ++i) from_float(values[begin + i], piece[i]);
      std::memcpy(aligned_to<sizeof piece>(to + begin), piece, sizeof piece);
    }
  } else {
#pragma unroll
    for (int i = 0; i < N; ++i) {
      if (i < count) from_float(values[i], to[i]);
    }
  }
}

/// load_chunk from element `index` of an array whose type is known at run time only.
template <int N>
__device__ __forceinline__ void load_chunk(DType dtype, const void* array, std::int64_t index,
                                           std::int64_t count, bool vectors, float (&to)[N]) {
  if (dtype == DType::f32) {
    load_chunk(static_cast<const float*>(array) + index, count, vectors, to);
  } else if (dtype == DType::f16) {
    load_chunk(static_cast<const __half*>(array) + index, count, vectors, to);
  } else {
    load_chunk(static_cast<const __nv_bfloat16*>(array) + index, count, vectors, to);
  }
}

/// store_chunk to element `index` of an array whose type is known at run time only.
template <int N>
__device__ __forceinline__ void store_chunk(const float (&values)[N], std::int64_t count,
                                            bool vectors, DType dtype, void* array,
                                            std::int64_t index) {
  if (dtype == DType::f32) {
    store_chunk(values, count, vectors, static_cast<float*>(array) + index);
  } else if (dtype == DType::f16) {
    store_chunk(values, count, vectors, static_cast<__half*>(array) + index);
  } else {
    store_chunk(values, count, vectors, static_cast<__nv_bfloat16*>(array) + index);
  }
}

/// True if every row of the view starts at a multiple of 16 bytes (or there is but one, which
/// does): chunks that start at multiples of kChunk elements may be taken by 16-byte accesses.
inline bool allows_vectors(const MatrixView& view) {
  const std::int64_t row_bytes = view.stride * static_cast<std::int64_t>(bits(view.dtype) / 8);
  return reinterpret_cast<std::uintptr_t>(view.data) % 16 == 0 &&
         (view.rows <= 1 || row_bytes % 16 == 0);
}

/// True if every matrix allows 16-byte accesses; a view without data counts for nothing.
template <class... Views>
bool all_allow_vectors(const Views&... views) {
  return ((views.data == nullptr || allows_vectors(views)) && ...);
}

/// Smallest multiple of a warp that gives each of `items` a thread, at most `limit`.
inline unsigned threads_for(std::int64_t items, unsigned limit) {
  return items >= limit ? limit : static_cast<unsigned>((items + 31) / 32 * 32);
}

}  // namespace shardlm::cuda
