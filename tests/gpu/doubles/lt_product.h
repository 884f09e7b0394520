// The arithmetic of the cuBLASLt double.
#pragma once

#include <cstddef>

#include <library_types.h>

namespace shardlm::doubles {

/// A column-major matrix: element (i, j) is data[i + j * ld].
struct LtMatrix {
  const void* data = nullptr;
  cudaDataType type = CUDA_R_32F;
  std::size_t rows = 0, cols = 0, ld = 0;
};

/// out[m, n] = epilogue(alpha * op(a)[m, k] * op(b)[k, n] + beta * c + bias[m]).
struct LtProduct {
  LtMatrix a, b, c, out;
  void* result = nullptr;  ///< out.data, to be written
  bool transpose_a = false, transpose_b = false, gelu = false;
  const void* bias = nullptr;  ///< in out's type; null: none
  float alpha = 1, beta = 0;

  std::size_t k() const { return transpose_a ? a.rows : a.cols; }
};

/// Each sum is one chain of fused multiply-adds over ascending k in float32, so that results do not
/// depend on the machine. With beta = 0, c is not read.
void compute(const LtProduct& product);

/// Bytes of an element; 0 for a type that the double does not know.
std::size_t element_bytes(cudaDataType type);

}  // namespace shardlm::doubles
