// Elements of the three activation types as float32, for kernels.
#pragma once

#include "backend/cuda/gpu.h"
#include "base/dtype.h"
#include "base/error.h"

namespace shardlm::cuda {

__device__ __forceinline__ float to_float(float x) { return x; }
__device__ __forceinline__ float to_float(__half x) { return __half2float(x); }
__device__ __forceinline__ float to_float(__nv_bfloat16 x) { return __bfloat162float(x); }

__device__ __forceinline__ void from_float(float x, float& to) { to = x; }
__device__ __forceinline__ void from_float(float x, __half& to) { to = __float2half_rn(x); }
__device__ __forceinline__ void from_float(float x, __nv_bfloat16& to) {
  to = __float2bfloat16_rn(x);
}

/// Calls f with a value of the element type that `dtype` names.
template <class F>
void with_element(DType dtype, F&& f) {
  switch (dtype) {
    case DType::f32:
      return f(float{});
    case DType::f16:
      return f(__half{});
    case DType::bf16:
      return f(__nv_bfloat16{});
    default:
      fail(ExitCode::bug, {.what = "element type of a kernel",
                           .expected = "F32, F16 or BF16",
                           .found = std::string(name(dtype))});
  }
}

}  // namespace shardlm::cuda
