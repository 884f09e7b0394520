// Tensor-core instructions: each lane gathers the fragments of all lanes and computes its own
// outputs, from the register layouts that the PTX manual gives.
#pragma once

#include <cstdint>
#include <cstring>

#include "tests/gpu/emulation/emulated_keywords.h"
#include "tests/gpu/emulation/emulated_memory.h"
#include "tests/gpu/emulation/engine.h"

namespace shardlm::emu {

template <class T>
float half_to_float(unsigned short bits);
template <>
inline float half_to_float<__half>(unsigned short bits) {
  return __half2float(__ushort_as_half(bits));
}
template <>
inline float half_to_float<__nv_bfloat16>(unsigned short bits) {
  return __bfloat162float(__ushort_as_bfloat16(bits));
}

/// The i-th 16-bit element of a fragment.
template <class T>
float element(const std::uint64_t (&words)[2], int i) {
  return half_to_float<T>(static_cast<unsigned short>(words[i / 4] >> (16 * (i % 4))));
}

/// mma.m16n8k16, row.col: d[16, 8] += a[16, 16] * b[16, 8], sums in float32, k ascending.
template <class T>
void mma_m16n8k16(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2], Site site) {
  const auto words = [](unsigned low, unsigned high) {
    return static_cast<std::uint64_t>(low) | static_cast<std::uint64_t>(high) << 32;
  };
  const Gathered& all_a = gather(~0U, words(a[0], a[1]), words(a[2], a[3]), false, site);
  const Gathered& all_b = gather(~0U, words(b[0], b[1]), 0, false, site);
  if (all_a.present != ~0U) fail("mma: not all 32 lanes take part", site);
  const int group = current->lane >> 2, in_group = current->lane & 3;
  for (int i = 0; i < 4; ++i) {
    const int row = group + (i >= 2 ? 8 : 0), col = 2 * in_group + (i & 1);
    float sum = d[i];
    for (int k = 0; k < 16; ++k) {
      const int lane_a = row % 8 * 4 + k % 8 / 2;
      const int at_a = (k & 1) + (row >= 8 ? 2 : 0) + (k >= 8 ? 4 : 0);
      const int lane_b = col * 4 + k % 8 / 2, at_b = (k & 1) + (k >= 8 ? 2 : 0);
      sum += element<T>(all_a.value[lane_a], at_a) * element<T>(all_b.value[lane_b], at_b);
    }
    d[i] = sum;
  }
}

/// ldmatrix of N 8x8 matrices of 16-bit elements: lane 8 j + i names row i of matrix j in shared
/// memory; lane l receives from each matrix row l / 4 (transposed: column), elements 2 (l % 4) and
/// the next.
template <int N, bool Transposed>
void load_matrix(unsigned (&r)[N], const void* row, Site site) {
  require_aligned(row, 16, "ldmatrix: a row is not aligned to 16 bytes", site);
  const Gathered& rows = gather(~0U, reinterpret_cast<std::uint64_t>(row), 0, false, site);
  if (rows.present != ~0U) fail("ldmatrix: not all 32 lanes take part", site);
  const int lane = current->lane, line = lane / 4, pair = 2 * (lane % 4);
  for (int j = 0; j < N; ++j) {
    unsigned short half[2];
    for (int i = 0; i < 2; ++i) {
      const int from = Transposed ? pair + i : line, at = Transposed ? line : pair + i;
      std::memcpy(&half[i], reinterpret_cast<const char*>(rows.value[8 * j + from][0]) + 2 * at, 2);
    }
    r[j] = half[0] | static_cast<unsigned>(half[1]) << 16;
  }
}

}  // namespace shardlm::emu
