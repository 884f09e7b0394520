// A matrix in device memory as kernels and their launchers see it.
#pragma once

#include <cstdint>

#include "base/dtype.h"

namespace shardlm::cuda {

/// [rows, cols] elements of `dtype` (f32, f16 or bf16); rows stand `stride` elements apart.
struct MatrixView {
  void* data = nullptr;
  std::int64_t rows = 0, cols = 0, stride = 0;
  DType dtype = DType::f32;
};

}  // namespace shardlm::cuda
