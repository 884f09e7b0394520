#include "backend/cuda/cuda_matrix.h"

namespace shardlm::cuda {
namespace {

MatrixView shape_of(const MatrixSource& source, DType dtype) {
  const std::int64_t rows = source.rows_are_outputs ? source.out : source.in;
  const std::int64_t cols = source.rows_are_outputs ? source.in : source.out;
  return {.data = nullptr,
          .rows = rows,
          .cols = cols,
          .stride = padded_stride(cols, dtype),
          .dtype = dtype};
}

std::size_t bytes_of(const MatrixView& m) {
  return static_cast<std::size_t>(m.rows * m.stride) * bits(m.dtype) / 8;
}

}  // namespace

std::int64_t padded_stride(std::int64_t cols, DType dtype) {
  const auto unit = static_cast<std::int64_t>(16 * 8 / bits(dtype));
  return (cols + unit - 1) / unit * unit;
}

CudaMatrix::CudaMatrix(const MatrixSource& source, DType dtype, Transfer& transfer)
    : in_(source.in),
      out_(source.out),
      rows_are_outputs_(source.rows_are_outputs),
      rows_(shape_of(source, dtype)),
      memory_(bytes_of(rows_), "a weight matrix") {
  rows_.data = memory_.data();
  transfer.upload(source.read_row, rows_);
}

CudaKvStorage::CudaKvStorage(std::int64_t n_head, std::int64_t head_dim, std::int64_t n_blocks,
                             std::int64_t block_tokens, DType dtype)
    : n_head_(n_head),
      head_dim_(head_dim),
      n_blocks_(n_blocks),
      block_tokens_(block_tokens),
      dtype_(dtype),
      memory_(2 * static_cast<std::size_t>(n_head * head_dim * n_blocks * block_tokens) *
                  bits(dtype) / 8,
              "the KV cache") {}

}  // namespace shardlm::cuda
