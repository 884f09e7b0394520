#include "backend/cuda/kernels/gather.h"

#include "backend/cuda/kernels/chunk.h"

namespace shardlm::cuda {
namespace {

/// One block a row.
template <class From, class To>
__global__ void gather_kernel(MatrixView table, std::int32_t first_id, const std::int32_t* ids,
                              MatrixView out, bool vectors) {
  constexpr int N = kChunk<From>;
  const std::int64_t row = blockIdx.x;
  const std::int64_t at = std::int64_t{ids[row]} - first_id;
  const bool known = at >= 0 && at < table.rows;
  const From* from = static_cast<const From*>(table.data) + (known ? at * table.stride : 0);
  To* to = static_cast<To*>(out.data) + row * out.stride;
  for (std::int64_t i = std::int64_t{threadIdx.x} * N; i < out.cols;
       i += std::int64_t{blockDim.x} * N) {
    float values[N] = {};
    if (known) load_chunk(from + i, out.cols - i, vectors, values);
    store_chunk(values, out.cols - i, vectors, to + i);
  }
}

template <class From, class To>
void launch_gather(cudaStream_t stream, const MatrixView& table, std::int32_t first_id,
                   const std::int32_t* ids, const MatrixView& out) {
  check(table.cols == out.cols, "gather: columns of table and result");
  if (out.rows == 0 || out.cols == 0) return;
  const unsigned threads = threads_for((out.cols + kChunk<From> - 1) / kChunk<From>, 256);
  gpu::launch({dim3(static_cast<unsigned>(out.rows)), dim3(threads), 0, stream},
              gather_kernel<From, To>, table, first_id, ids, out, all_allow_vectors(table, out));
}

}  // namespace

void embed(cudaStream_t stream, const MatrixView& table, std::int32_t first_id,
           const std::int32_t* ids, const MatrixView& out) {
  check(out.dtype == DType::f32, "embed: the result is float32");
  with_element(table.dtype, [&](auto element) {
    launch_gather<decltype(element), float>(stream, table, first_id, ids, out);
  });
}

void gather_rows(cudaStream_t stream, const MatrixView& table, const std::int32_t* ids,
                 const MatrixView& out) {
  check(out.dtype == table.dtype, "gather_rows: table and result have one dtype");
  with_element(table.dtype, [&](auto element) {
    using T = decltype(element);
    launch_gather<T, T>(stream, table, 0, ids, out);
  });
}

}  // namespace shardlm::cuda
