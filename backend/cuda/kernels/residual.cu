#include "backend/cuda/kernels/residual.h"

#include <algorithm>

#include "backend/cuda/kernels/row_norm.h"

namespace shardlm::cuda {
namespace {

/// Elements that a thread takes at a time: 16 bytes of the narrower type.
constexpr int kWide = 8, kNarrow = 4;

struct Addends {
  const void* data[kMaxAddends];
  std::int64_t stride[kMaxAddends];
  int count;
};

struct Rows {
  float* residual;
  std::int64_t stride, n;
  const float* bias;
  RowNorm norm;  // out: of row 0
  std::int64_t normed_stride;
  bool vectors;
};

/// The norm of row `row`.
__device__ __forceinline__ RowNorm norm_of_row(const Rows& rows, std::int64_t row) {
  RowNorm norm = rows.norm;
  if (norm.out == nullptr) return norm;
  const std::int64_t width = norm.out_dtype == DType::f32 ? 4 : 2;
  norm.out = static_cast<unsigned char*>(norm.out) + row * rows.normed_stride * width;
  return norm;
}

template <int N>
__global__ void __launch_bounds__(kRowThreads) layer_norm_kernel(Rows rows) {
  const float* x = rows.residual + std::int64_t{blockIdx.x} * rows.stride;
  const auto load = [&](std::int64_t i, float(&values)[N]) {
    load_chunk(x + i, rows.n - i, rows.vectors, values);
  };
  normalize_row<N>(rows.n, norm_of_row(rows, blockIdx.x), rows.vectors, load, load);
}

template <class T>
__global__ void __launch_bounds__(kRowThreads)
    update_residual_kernel(const __grid_constant__ Addends addends, Rows rows) {
  constexpr int N = kChunk<T>;
  const std::int64_t row = blockIdx.x;
  const auto sum_addends = [&](std::int64_t i, float(&sum)[N]) {
    for (int a = 0; a < addends.count; ++a) {
      const T* from = static_cast<const T*>(addends.data[a]) + row * addends.stride[a];
      float add[N];
      load_chunk(from + i, rows.n - i, rows.vectors, add);
#pragma unroll
      for (int e = 0; e < N; ++e) sum[e] = a == 0 ? add[e] : sum[e] + add[e];
    }
  };
  update_row<N>(rows.residual + row * rows.stride, rows.bias, rows.n, norm_of_row(rows, row),
                rows.vectors, sum_addends);
}

bool aligned(const float* vector) { return reinterpret_cast<std::uintptr_t>(vector) % 16 == 0; }

void check_like(const MatrixView& view, const MatrixView& x, std::string_view what) {
  check(view.rows == x.rows && view.cols == x.cols, what);
}

Rows make_rows(const MatrixView& x, const float* bias, const NormParams* norm,
               const MatrixView& out) {
  check(x.dtype == DType::f32, "residual stream: rows are float32");
  Rows rows{static_cast<float*>(x.data), x.stride, x.cols, bias, {}, 0, allows_vectors(x)};
  rows.vectors &= aligned(bias);
  if (norm == nullptr) return rows;
  check_like(out, x, "layer_norm: shape of the result");
  with_element(out.dtype, [](auto) {});  // refuses what the kernel cannot store
  rows.norm = {norm->weight, norm->bias, norm->epsilon, out.data, out.dtype};
  rows.normed_stride = out.stride;
  rows.vectors &= allows_vectors(out) && aligned(norm->weight) && aligned(norm->bias);
  return rows;
}

}  // namespace

void layer_norm(cudaStream_t stream, const MatrixView& x, const NormParams& norm,
                const MatrixView& out) {
  const Rows rows = make_rows(x, nullptr, &norm, out);
  if (x.rows == 0 || x.cols == 0) return;
  const bool wide = out.dtype != DType::f32;
  gpu::launch({dim3(static_cast<unsigned>(x.rows)),
               dim3(row_threads(x.cols, wide ? kWide : kNarrow)), 0, stream},
              wide ? layer_norm_kernel<kWide> : layer_norm_kernel<kNarrow>, rows);
}

void update_residual(cudaStream_t stream, std::span<const MatrixView> addends,
                     const ResidualRows& update) {
  const MatrixView& x = update.residual;
  check(!addends.empty() && addends.size() <= kMaxAddends, "update_residual: number of addends");
  Rows rows = make_rows(x, update.bias, update.norm, update.normed);
  Addends list{};
  for (const MatrixView& addend : addends) {
    check_like(addend, x, "update_residual: shape of an addend");
    check(addend.dtype == addends[0].dtype, "update_residual: addends have one dtype");
    rows.vectors &= allows_vectors(addend);
    list.data[list.count] = addend.data;
    list.stride[list.count++] = addend.stride;
  }
  if (x.rows == 0 || x.cols == 0) return;
  with_element(addends[0].dtype, [&](auto element) {
    using T = decltype(element);
    gpu::launch(
        {dim3(static_cast<unsigned>(x.rows)), dim3(row_threads(x.cols, kChunk<T>)), 0, stream},
        update_residual_kernel<T>, list, rows);
  });
}

}  // namespace shardlm::cuda
