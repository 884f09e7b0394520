// Storage and views; no mathematics.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/dtype.h"

namespace shardlm {

/// A block of device memory. The back end that made it frees it.
class Buffer {
 public:
  virtual ~Buffer() = default;
  virtual std::byte* data() const = 0;
  virtual std::size_t bytes() const = 0;
};

/// A matrix [rows, cols] on a device: a view that keeps its buffer alive. Rows stand `stride`
/// elements apart. A vector is a matrix of one row. Copying a Tensor copies the view.
class Tensor {
 public:
  Tensor() = default;
  Tensor(std::shared_ptr<Buffer> buffer, std::int64_t rows, std::int64_t cols,
         DType dtype = DType::f32, std::int64_t stride = -1)
      : buffer_(std::move(buffer)),
        data_(buffer_->data()),
        rows_(rows),
        cols_(cols),
        stride_(stride < 0 ? cols : stride),
        dtype_(dtype) {}

  /// A float32 view of memory that someone else owns for longer (a shared-memory slot).
  static Tensor borrow(float* data, std::int64_t rows, std::int64_t cols);
  /// The same of any type; `data` is aligned to its elements.
  static Tensor borrow(std::byte* data, std::int64_t rows, std::int64_t cols, DType dtype);
  /// The same of fixed point.
  static Tensor borrow(std::int64_t* data, std::int64_t rows, std::int64_t cols);

  std::int64_t rows() const { return rows_; }
  std::int64_t cols() const { return cols_; }
  std::int64_t stride() const { return stride_; }
  std::int64_t elements() const { return rows_ * cols_; }
  DType dtype() const { return dtype_; }
  bool contiguous() const { return stride_ == cols_ || rows_ <= 1; }

  /// Device address of row i: to be read by the back end that made the tensor, no one else.
  std::byte* address(std::int64_t i) const {
    return data_ + i * stride_ * static_cast<std::int64_t>(bits(dtype_) / 8);
  }
  /// The same of a float32 tensor.
  float* row(std::int64_t i) const { return reinterpret_cast<float*>(data_) + i * stride_; }
  /// The same of a tensor in fixed point (DType::i64, backend/fixed_point.h).
  std::int64_t* fixed_row(std::int64_t i) const {
    return reinterpret_cast<std::int64_t*>(data_) + i * stride_;
  }

  Tensor row_range(std::int64_t begin, std::int64_t end) const;  ///< [end - begin, cols]
  Tensor columns(std::int64_t begin, std::int64_t end) const;    ///< [rows, end - begin]

 private:

  std::shared_ptr<Buffer> buffer_;
  std::byte* data_ = nullptr;
  std::int64_t rows_ = 0, cols_ = 0, stride_ = 0;
  DType dtype_ = DType::f32;
};

}  // namespace shardlm
