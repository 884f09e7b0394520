#include "comm/shm_twoshot.h"

#include <algorithm>
#include <utility>

#include "comm/shm_addend.h"
#include "comm/sum_in_order.h"

namespace shardlm {
namespace {

constexpr std::size_t kChunkBytes = std::size_t{32} << 10;

// The steps of a phase in which C chunks are put and summed, each in its turn: put 0, put 1, sum 0,
// put 2, sum 1, …, put C-1, sum C-2, sum C-1.
std::uint32_t put_step(std::size_t chunk) {
  return chunk == 0 ? 1 : static_cast<std::uint32_t>(2 * chunk);
}
std::uint32_t sum_step(std::size_t chunk, std::size_t chunks) {
  return static_cast<std::uint32_t>(chunk + 1 < chunks ? 2 * chunk + 3 : 2 * chunks);
}

}  // namespace

ShmTwoShot::ShmTwoShot(ShmTeam& team, Backend& backend)
    : team_(team), backend_(backend), addends_(static_cast<std::size_t>(team.size())) {}

std::optional<Tensor> ShmTwoShot::addend(const Call& next, std::int64_t rows, std::int64_t cols,
                                         DType dtype) {
  return addend_in_next_slot(team_, next, rows, cols, dtype);
}

std::span<const Tensor> ShmTwoShot::reduce(const Call& call, const Tensor& addend) {
  const ShmLabel label = sum_label(call, addend, Algorithm::shm_twoshot, WireFormat::f32);
  team_.begin_phase(call);
  elements_ = static_cast<std::size_t>(addend.elements());
  type_ = sum_type(addend.dtype());
  element_bytes_ = held_bytes(type_);
  const std::size_t bytes = elements_ * element_bytes_;
  chunks_ = std::max<std::size_t>(1, (bytes + kChunkBytes - 1) / kChunkBytes);
  const bool whole = !addend.contiguous() || addend.address(0) == team_.slot(team_.rank());
  if (whole) put_addend(team_, backend_, addend);
  for (std::size_t chunk = 0; chunk < chunks_; ++chunk) {
    if (!whole) put_chunk(addend, chunk);
    if (chunk == 0) {
      team_.arrive(label);
      team_.wait_for_all(call);
      team_.check_labels(call, label);
    } else {
      team_.reach(put_step(chunk));
      sum_chunk(call, chunk - 1);
    }
  }
  sum_chunk(call, chunks_ - 1);
  team_.wait_for_all(call, sum_step(chunks_ - 1, chunks_));
  sent_bytes_ += bytes;
  sum_ = Tensor::borrow(team_.slot(0), addend.rows(), addend.cols(), addend.dtype());
  return {&sum_, 1};
}

Slice ShmTwoShot::chunk_range(std::size_t chunk) const {
  const std::size_t at_once = kChunkBytes / element_bytes_;
  return {chunk * at_once, std::min(elements_, (chunk + 1) * at_once)};
}

void ShmTwoShot::put_chunk(const Tensor& addend, std::size_t chunk) {
  const Slice range = chunk_range(chunk);
  if (range.size() == 0) return;
  const Tensor flat = Tensor::borrow(addend.address(0), 1, addend.elements(), addend.dtype());
  copy_elements(
      backend_,
      flat.columns(static_cast<std::int64_t>(range.begin), static_cast<std::int64_t>(range.end)),
      team_.slot(team_.rank()) + range.begin * element_bytes_);
}

void ShmTwoShot::sum_chunk(const Call& call, std::size_t chunk) {
  team_.wait_for_all(call, put_step(chunk));
  const Slice range = chunk_range(chunk);
  const Slice mine =
      slice_of(range.size(), ShmTeam::kAlignment / element_bytes_, team_.rank(), team_.size());
  const std::size_t at = (range.begin + mine.begin) * element_bytes_;
  for (int r = 0; r < team_.size(); ++r) {
    addends_[static_cast<std::size_t>(r)] = team_.slot(r) + at;
  }
  if (mine.size() > 0) sum_in_order(addends_, type_, mine.size(), team_.slot(0) + at);
  sent_bytes_ += mine.size() * element_bytes_;
  team_.reach(sum_step(chunk, chunks_));
}

void ShmTwoShot::release() {
  backend_.synchronize();  // the peers may overwrite their slots after finish()
  team_.finish();
}

}  // namespace shardlm
