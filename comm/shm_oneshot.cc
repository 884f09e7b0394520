#include "comm/shm_oneshot.h"

#include "comm/shm_addend.h"

namespace shardlm {

ShmOneShot::ShmOneShot(ShmTeam& team, Backend& backend, WireFormat wire)
    : team_(team), backend_(backend), wire_(wire), held_(backend) {
  returned_.reserve(static_cast<std::size_t>(team.size()));
}

std::optional<Tensor> ShmOneShot::addend(const Call& next, std::int64_t rows, std::int64_t cols,
                                         DType dtype) {
  if (wire_ != WireFormat::f32) return held_.offer(rows, cols, dtype);
  return addend_in_next_slot(team_, next, rows, cols, dtype);
}

std::span<const Tensor> ShmOneShot::reduce(const Call& call, const Tensor& addend) {
  const ShmLabel label = sum_label(call, addend, Algorithm::shm_oneshot, wire_);
  const WireCodec& codec = wire_codec(HeldAddend::type_of(addend.dtype()), wire_);
  team_.begin_phase(call);
  if (codec.plain()) {
    put_addend(team_, backend_, addend);
  } else {
    codec.encode(held_.take(addend), elements_of(addend), team_.slot(team_.rank()));
  }
  sent_bytes_ += codec.wire_bytes(elements_of(addend));
  team_.arrive(label);
  team_.wait_for_all(call);
  team_.check_labels(call, label);
  returned_.clear();
  if (!codec.plain()) {
    sum_rounded(codec, addend);
    return returned_;
  }
  for (int r = 0; r < team_.size(); ++r) {
    returned_.push_back(
        Tensor::borrow(team_.slot(r), addend.rows(), addend.cols(), addend.dtype()));
  }
  return returned_;
}

void ShmOneShot::sum_rounded(const WireCodec& codec, const Tensor& shape) {
  const std::size_t n = elements_of(shape);
  if (sum_.size() < n) sum_.resize(n);
  auto* const sum = reinterpret_cast<std::byte*>(sum_.data());
  codec.decode(team_.slot(0), n, sum);
  for (int r = 1; r < team_.size(); ++r) codec.add(team_.slot(r), n, sum);
  returned_.push_back(Tensor::borrow(sum, shape.rows(), shape.cols(), shape.dtype()));
}

void ShmOneShot::release() {
  backend_.synchronize();  // the peers may overwrite their slots after finish()
  team_.finish();
}

}  // namespace shardlm
