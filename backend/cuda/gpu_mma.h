// Tensor-core instructions of sm_80 and later: PTX on the device, emulated on the host. Include
// gpu.h, not this file. All 32 lanes of a warp take part in each.
#pragma once

#include <type_traits>

namespace shardlm::gpu {

/// d[16, 8] += a[16, 16] * b[16, 8] in float32; T is __half or __nv_bfloat16. Fragments as the PTX
/// manual lays them out for mma.m16n8k16: with g = lane / 4 and t = lane % 4,
///   a[0] = A[g][2t, 2t+1], a[1] = A[g+8][2t, 2t+1], a[2] = A[g][2t+8, 2t+9], a[3] = A[g+8][2t+8,
///   2t+9] b[0] = B[2t, 2t+1][g], b[1] = B[2t+8, 2t+9][g] d[0], d[1] = D[g][2t, 2t+1], d[2], d[3] =
///   D[g+8][2t, 2t+1]
/// with the element of the lower index in the lower half of a register.
template <class T = __half>
__device__ __forceinline__ void mma_m16n8k16(float (&d)[4], const unsigned (&a)[4],
                                             const unsigned (&b)[2] GPU_SITE_COMMA) {
  static_assert(std::is_same_v<T, __half> || std::is_same_v<T, __nv_bfloat16>);
#if defined(__CUDA_ARCH__)
  if constexpr (std::is_same_v<T, __half>) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};\n"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  } else {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};\n"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  }
#elif !defined(__CUDACC__)
  emu::mma_m16n8k16<T>(d, a, b, site);
#endif
}

/// Four 8x8 matrices of 16-bit elements from shared memory. Lane 8 j + i passes the address of row
/// i of matrix j (16 aligned bytes); afterwards r[j] of each lane holds row lane / 4, elements 2
/// (lane % 4) and the next, of matrix j. Loaded at the addresses of a 16x16 tile (matrices: upper
/// left, lower left, upper right, lower right) it gives fragment `a` of mma_m16n8k16.
__device__ __forceinline__ void load_matrix_x4(unsigned (&r)[4], const void* row GPU_SITE_COMMA) {
#if defined(__CUDA_ARCH__)
  const auto s = static_cast<unsigned>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(s)
               : "memory");
#elif !defined(__CUDACC__)
  emu::load_matrix<4, false>(r, row, site);
#endif
}

/// As load_matrix_x4, each matrix transposed: r[j] holds column lane / 4, rows 2 (lane % 4) and the
/// next. From a row-major B[16, 8] (matrices 0 and 1) it gives fragment `b` in r[0] and r[1].
__device__ __forceinline__ void load_matrix_x4_transposed(unsigned (&r)[4],
                                                          const void* row GPU_SITE_COMMA) {
#if defined(__CUDA_ARCH__)
  const auto s = static_cast<unsigned>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(s)
               : "memory");
#elif !defined(__CUDACC__)
  emu::load_matrix<4, true>(r, row, site);
#endif
}

}  // namespace shardlm::gpu
