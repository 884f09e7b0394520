#include "comm/shm_oneshot.h"

#include "comm/shm_addend.h"

namespace shardlm {

ShmOneShot::ShmOneShot(ShmTeam& team, Backend& backend)
    : team_(team), backend_(backend), addends_(static_cast<std::size_t>(team.size())) {}

std::optional<Tensor> ShmOneShot::addend(const Call& next, std::int64_t rows, std::int64_t cols,
                                         DType dtype) {
  return addend_in_next_slot(team_, next, rows, cols, dtype);
}

std::span<const Tensor> ShmOneShot::reduce(const Call& call, const Tensor& addend) {
  const ShmLabel label = sum_label(call, addend, Algorithm::shm_oneshot, WireFormat::f32);
  team_.begin_phase(call);
  sent_bytes_ += put_addend(team_, backend_, addend);
  team_.arrive(label);
  team_.wait_for_all(call);
  team_.check_labels(call, label);
  for (int r = 0; r < team_.size(); ++r) {
    addends_[static_cast<std::size_t>(r)] =
        Tensor::borrow(team_.slot(r), addend.rows(), addend.cols(), addend.dtype());
  }
  return addends_;
}

void ShmOneShot::release() {
  backend_.synchronize();  // the peers may overwrite their slots after finish()
  team_.finish();
}

}  // namespace shardlm
