#include "comm/held_addend.h"

#include <cstring>
#include <functional>
#include <string>

#include "base/error.h"

namespace shardlm {
namespace {

std::size_t bytes_of(std::int64_t rows, std::int64_t cols, DType dtype) {
  return static_cast<std::size_t>(rows * cols) * held_bytes(HeldAddend::type_of(dtype));
}

}  // namespace

SumType HeldAddend::type_of(DType dtype) {
  if (dtype == DType::f32) return SumType::f32;
  if (dtype == DType::i64) return SumType::fixed64;
  fail(ExitCode::bug, {.what = "the dtype of an addend",
                       .expected = "F32, or I64 (fixed point)",
                       .found = std::string(name(dtype))});
}

void HeldAddend::grow(std::size_t bytes) {
  const std::size_t lines = bytes / sizeof(Line) + 1;
  if (lines_.size() < lines) lines_.resize(lines);
}

std::optional<Tensor> HeldAddend::offer(std::int64_t rows, std::int64_t cols, DType dtype) {
  if (backend_.memory()) return std::nullopt;  // a device cannot write here
  grow(bytes_of(rows, cols, dtype));
  return Tensor::borrow(data(), rows, cols, dtype);
}

std::byte* HeldAddend::take(const Tensor& addend) {
  const std::size_t bytes = bytes_of(addend.rows(), addend.cols(), addend.dtype());
  if (holds(addend, bytes)) return addend.address(0);
  grow(bytes);
  copy(addend, bytes);
  return data();
}

bool HeldAddend::holds(const Tensor& addend, std::size_t bytes) {
  if (bytes == 0 || lines_.empty() || !addend.contiguous()) return false;
  const std::less_equal<const std::byte*> before;
  return before(data(), addend.address(0)) &&
         before(addend.address(0) + bytes, data() + lines_.size() * sizeof(Line));
}

void HeldAddend::copy(const Tensor& addend, std::size_t bytes) {
  if (bytes == 0) return;
  if (addend.dtype() == DType::f32) {
    backend_.download(addend, {reinterpret_cast<float*>(data()), bytes / sizeof(float)});
    return;
  }
  check(!backend_.memory(), "a device's sums in fixed point come to the host before");
  const std::size_t row_bytes = bytes / static_cast<std::size_t>(addend.rows());
  for (std::int64_t r = 0; r < addend.rows(); ++r) {
    std::memcpy(data() + static_cast<std::size_t>(r) * row_bytes, addend.address(r), row_bytes);
  }
}

}  // namespace shardlm
