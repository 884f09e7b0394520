// Storage and views; no mathematics.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace shardlm {

/// A block of device memory. The back end that made it frees it.
class Buffer {
 public:
  virtual ~Buffer() = default;
  virtual float* data() const = 0;
  virtual std::int64_t capacity() const = 0;  ///< in floats
};

/// A float32 matrix [rows, cols] on a device: a view that keeps its buffer alive. Rows stand
/// `stride` floats apart. A vector is a matrix of one row. Copying a Tensor copies the view.
class Tensor {
 public:
  Tensor() = default;
  Tensor(std::shared_ptr<Buffer> buffer, std::int64_t rows, std::int64_t cols)
      : buffer_(std::move(buffer)),
        data_(buffer_->data()),
        rows_(rows),
        cols_(cols),
        stride_(cols) {}

  /// A view of memory that someone else owns for longer (a shared-memory slot).
  static Tensor borrow(float* data, std::int64_t rows, std::int64_t cols);

  std::int64_t rows() const { return rows_; }
  std::int64_t cols() const { return cols_; }
  std::int64_t stride() const { return stride_; }
  std::int64_t elements() const { return rows_ * cols_; }
  bool contiguous() const { return stride_ == cols_ || rows_ <= 1; }

  /// Device address of row i: to be read by the back end that made the tensor, no one else.
  float* row(std::int64_t i) const { return data_ + i * stride_; }

  Tensor row_range(std::int64_t begin, std::int64_t end) const;  ///< [end - begin, cols]
  Tensor columns(std::int64_t begin, std::int64_t end) const;    ///< [rows, end - begin]

 private:
  std::shared_ptr<Buffer> buffer_;
  float* data_ = nullptr;
  std::int64_t rows_ = 0, cols_ = 0, stride_ = 0;
};

}  // namespace shardlm
