#include "comm/shm_addend.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace shardlm {

std::optional<Tensor> addend_in_next_slot(ShmTeam& team, const Call& next, std::int64_t rows,
                                          std::int64_t cols, DType dtype) {
  if (dtype != DType::f32 && dtype != DType::i64) return std::nullopt;
  const std::int64_t bytes = rows * cols * static_cast<std::int64_t>(bits(dtype) / 8);
  if (bytes == 0 || std::cmp_greater(bytes, team.slot_bytes())) return std::nullopt;
  return Tensor::borrow(team.next_slot(next), rows, cols, dtype);
}

void copy_elements(Backend& backend, const Tensor& addend, std::byte* to) {
  if (addend.elements() == 0) return;
  if (addend.dtype() == DType::f32) {
    backend.download(addend, {reinterpret_cast<float*>(to), elements_of(addend)});
    return;
  }
  check(addend.dtype() == DType::i64, "addends are float32 or fixed point");
  check(!backend.memory(), "a device's sums in fixed point come to the host before");
  const std::size_t row_bytes = static_cast<std::size_t>(addend.cols()) * sizeof(std::int64_t);
  for (std::int64_t t = 0; t < addend.rows(); ++t) {
    std::copy_n(addend.address(t), row_bytes, to + static_cast<std::size_t>(t) * row_bytes);
  }
}

void put_addend(ShmTeam& team, Backend& backend, const Tensor& addend) {
  check(elements_of(addend) * (bits(addend.dtype()) / 8) <= team.slot_bytes(),
        "an addend fits a slot of shared memory");
  std::byte* const slot = team.slot(team.rank());
  if (addend.address(0) != slot) copy_elements(backend, addend, slot);
}

}  // namespace shardlm
