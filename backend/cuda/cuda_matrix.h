// A weight matrix and the keys and values of a layer, on the device.
#pragma once

#include "backend/backend.h"
#include "backend/cuda/kernels/view.h"
#include "backend/cuda/memory.h"
#include "backend/cuda/transfer.h"

namespace shardlm::cuda {

/// Kept as the file has it, [out, in] or [in, out]: the matrix multiplication takes either. Rows
/// are padded to 16 bytes, so that each starts where the widest load may.
class CudaMatrix final : public WeightMatrix {
 public:
  CudaMatrix(const MatrixSource& source, DType dtype, Transfer& transfer);
  std::int64_t in() const override { return in_; }
  std::int64_t out() const override { return out_; }
  std::size_t bytes() const override { return memory_.bytes(); }
  bool rows_are_outputs() const { return rows_are_outputs_; }
  const MatrixView& rows() const { return rows_; }  ///< as it lies in memory

 private:
  std::int64_t in_, out_;
  bool rows_are_outputs_;
  MatrixView rows_;
  DeviceBlock memory_;
};

/// Keys and values [n_blocks][n_head][block_tokens][head_dim] each.
class CudaKvStorage final : public KvStorage {
 public:
  CudaKvStorage(std::int64_t n_head, std::int64_t head_dim, std::int64_t n_blocks,
                std::int64_t block_tokens, DType dtype);
  std::int64_t n_head() const override { return n_head_; }
  std::int64_t head_dim() const override { return head_dim_; }
  std::int64_t n_blocks() const override { return n_blocks_; }
  std::int64_t block_tokens() const override { return block_tokens_; }
  std::size_t bytes() const override { return memory_.bytes(); }
  std::byte* keys() const { return memory_.data(); }
  std::byte* values() const { return memory_.data() + memory_.bytes() / 2; }
  DType dtype() const { return dtype_; }

 private:
  std::int64_t n_head_, head_dim_, n_blocks_, block_tokens_;
  DType dtype_;
  DeviceBlock memory_;
};

/// Elements from row to row of a matrix with `cols` columns: a multiple of 16 bytes.
std::int64_t padded_stride(std::int64_t cols, DType dtype);

}  // namespace shardlm::cuda
