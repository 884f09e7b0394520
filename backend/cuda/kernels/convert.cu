#include "backend/cuda/kernels/convert.h"

#include <algorithm>

#include "backend/cuda/kernels/chunk.h"

namespace shardlm::cuda {
namespace {

constexpr int kThreads = 256;

template <class From>
__global__ void convert_kernel(MatrixView from, MatrixView to, bool vectors) {
  constexpr int N = 8;  // 16 bytes of the 2-byte types
  const std::int64_t per_row = (from.cols + N - 1) / N;
  const std::int64_t step = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t chunk = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
       chunk < from.rows * per_row; chunk += step) {
    const std::int64_t row = chunk / per_row, i = chunk % per_row * N;
    float values[N];
    load_chunk(static_cast<const From*>(from.data) + row * from.stride + i, from.cols - i, vectors,
               values);
    store_chunk(values, from.cols - i, vectors, to.dtype, to.data, row * to.stride + i);
  }
}

}  // namespace

void convert(cudaStream_t stream, const MatrixView& from, const MatrixView& to) {
  check(from.rows == to.rows && from.cols == to.cols, "convert: shapes");
  const std::int64_t chunks = from.rows * ((from.cols + 7) / 8);
  if (chunks == 0) return;
  const auto blocks =
      static_cast<unsigned>(std::min<std::int64_t>((chunks + kThreads - 1) / kThreads, 2048));
  with_element(to.dtype, [](auto) {});  // refuses what the kernel cannot store
  with_element(from.dtype, [&](auto element) {
    gpu::launch({dim3(blocks), dim3(kThreads), 0, stream}, convert_kernel<decltype(element)>, from,
                to, all_allow_vectors(from, to));
  });
}

}  // namespace shardlm::cuda
