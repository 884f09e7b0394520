#include "tests/gpu/doubles/lt_product.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cmath>
#include <cstddef>
#include <vector>

namespace shardlm::doubles {
namespace {

float load(const void* p, cudaDataType type, std::size_t i) {
  switch (type) {
    case CUDA_R_16F:
      return __half2float(static_cast<const __half*>(p)[i]);
    case CUDA_R_16BF:
      return __bfloat162float(static_cast<const __nv_bfloat16*>(p)[i]);
    default:
      return static_cast<const float*>(p)[i];
  }
}

void store(void* p, cudaDataType type, std::size_t i, float v) {
  switch (type) {
    case CUDA_R_16F:
      static_cast<__half*>(p)[i] = __float2half_rn(v);
      break;
    case CUDA_R_16BF:
      static_cast<__nv_bfloat16*>(p)[i] = __float2bfloat16_rn(v);
      break;
    default:
      static_cast<float*>(p)[i] = v;
  }
}

// op(matrix) as float32, [rows, cols] column-major without gaps.
std::vector<float> unpack(const LtMatrix& m, bool transpose) {
  const std::size_t rows = transpose ? m.cols : m.rows, cols = transpose ? m.rows : m.cols;
  std::vector<float> values(rows * cols);
  for (std::size_t j = 0; j < cols; ++j)
    for (std::size_t i = 0; i < rows; ++i)
      values[j * rows + i] = load(m.data, m.type, transpose ? i * m.ld + j : j * m.ld + i);
  return values;
}

// y += x * a, fused. On our own copies: sanitizers need not watch the inner loop.
#if defined(__x86_64__)
__attribute__((target("avx2,fma"), optimize("O3"),
               no_sanitize("address", "thread", "undefined"))) void
add_scaled_fma(float* y, const float* x, float a, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) y[i] = __builtin_fmaf(x[i], a, y[i]);
}
#endif

void add_scaled(float* y, const float* x, float a, std::size_t n) {
#if defined(__x86_64__)
  static const bool fast = __builtin_cpu_supports("fma") && __builtin_cpu_supports("avx2");
  if (fast) return add_scaled_fma(y, x, a, n);
#endif
  for (std::size_t i = 0; i < n; ++i) y[i] = std::fma(x[i], a, y[i]);
}

float gelu_tanh(float x) {
  constexpr float kSqrt2OverPi = 0.79788456F;
  return 0.5F * x * (1 + std::tanh(kSqrt2OverPi * (x + 0.044715F * x * x * x)));
}

}  // namespace

std::size_t element_bytes(cudaDataType type) {
  switch (type) {
    case CUDA_R_32F:
      return 4;
    case CUDA_R_16F:
    case CUDA_R_16BF:
      return 2;
    default:
      return 0;
  }
}

void compute(const LtProduct& p) {
  const std::size_t m = p.out.rows, n = p.out.cols, depth = p.k();
  const std::vector<float> a = unpack(p.a, p.transpose_a), b = unpack(p.b, p.transpose_b);
  std::vector<float> column(m);
  for (std::size_t j = 0; j < n; ++j) {
    column.assign(m, 0.0F);
    for (std::size_t k = 0; k < depth; ++k)
      add_scaled(column.data(), &a[k * m], b[j * depth + k], m);
    for (std::size_t i = 0; i < m; ++i) {
      float v = p.alpha * column[i];
      if (p.beta != 0) v += p.beta * load(p.c.data, p.c.type, j * p.c.ld + i);
      if (p.bias != nullptr) v += load(p.bias, p.out.type, i);
      if (p.gelu) v = gelu_tanh(v);
      store(p.result, p.out.type, j * p.out.ld + i, v);
    }
  }
}

}  // namespace shardlm::doubles
