#include "backend/tensor.h"

#include "base/error.h"

namespace shardlm {

Tensor Tensor::borrow(std::byte* data, std::int64_t rows, std::int64_t cols, DType dtype) {
  Tensor t;
  t.data_ = data;
  t.rows_ = rows;
  t.cols_ = cols;
  t.stride_ = cols;
  t.dtype_ = dtype;
  return t;
}

Tensor Tensor::borrow(float* data, std::int64_t rows, std::int64_t cols) {
  return borrow(reinterpret_cast<std::byte*>(data), rows, cols, DType::f32);
}

Tensor Tensor::borrow(std::int64_t* data, std::int64_t rows, std::int64_t cols) {
  return borrow(reinterpret_cast<std::byte*>(data), rows, cols, DType::i64);
}

Tensor Tensor::row_range(std::int64_t begin, std::int64_t end) const {
  check(0 <= begin && begin <= end && end <= rows_, "Tensor::row_range outside the tensor");
  Tensor t = *this;
  t.data_ = address(begin);
  t.rows_ = end - begin;
  return t;
}

Tensor Tensor::columns(std::int64_t begin, std::int64_t end) const {
  check(0 <= begin && begin <= end && end <= cols_, "Tensor::columns outside the tensor");
  Tensor t = *this;
  t.data_ += begin * static_cast<std::int64_t>(bits(dtype_) / 8);
  t.cols_ = end - begin;
  return t;
}

}  // namespace shardlm
