#include "comm/shm_oneshot.h"

#include <algorithm>

#include "base/error.h"
#include "comm/shm_addend.h"

namespace shardlm {
namespace {

constexpr std::size_t kPieceBytes = std::size_t{8} << 10;
constexpr std::size_t kLineBytes = 64;
constexpr int kMostFetched = 3;  // ranks: more would push each other out of the cache

std::uint32_t pieces_of(std::size_t bytes) {
  return static_cast<std::uint32_t>(
      std::max<std::size_t>(1, (bytes + kPieceBytes - 1) / kPieceBytes));
}

}  // namespace

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
  const std::size_t bytes = codec.wire_bytes(elements_of(addend));
  team_.begin_phase(call);
  if (codec.plain()) {
    put_plain(addend, label);
  } else {
    codec.encode(held_.take(addend), elements_of(addend), team_.slot(team_.rank()));
    team_.arrive(label);
    if (pieces_of(bytes) > 1) team_.reach(pieces_of(bytes));
  }
  sent_bytes_ += bytes;
  team_.wait_for_all(call);
  team_.check_labels(call, label);
  if (pieces_of(bytes) > 1) team_.wait_for_all(call, pieces_of(bytes));
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

// Step k + 1: piece k is there.
void ShmOneShot::put_plain(const Tensor& addend, const ShmLabel& label) {
  const std::size_t element_bytes = bits(addend.dtype()) / 8;
  check(elements_of(addend) * element_bytes <= team_.slot_bytes(), "an addend fits a slot");
  const std::uint32_t pieces = pieces_of(elements_of(addend) * element_bytes);
  std::byte* const slot = team_.slot(team_.rank());
  if (pieces == 1 || !addend.contiguous() || addend.address(0) == slot) {
    put_addend(team_, backend_, addend);
    team_.arrive(label);
    if (pieces > 1) team_.reach(pieces);
    return;
  }
  const Tensor flat = Tensor::borrow(addend.address(0), 1, addend.elements(), addend.dtype());
  const auto at_once = static_cast<std::int64_t>(kPieceBytes / element_bytes);
  for (std::uint32_t piece = 0; piece < pieces; ++piece) {
    const std::int64_t begin = piece * at_once;
    copy_elements(backend_, flat.columns(begin, std::min(flat.cols(), begin + at_once)),
                  slot + piece * kPieceBytes);
    piece == 0 ? team_.arrive(label) : team_.reach(piece + 1);
    if (piece > 0) fetch(piece - 1);
  }
}

void ShmOneShot::fetch(std::size_t piece) const {
  if (team_.size() > kMostFetched) return;
  for (int r = 0; r < team_.size(); ++r) {
    if (r == team_.rank() || !team_.has_reached(r, static_cast<std::uint32_t>(piece + 1))) continue;
    const std::byte* const begin = team_.slot(r) + piece * kPieceBytes;
    for (std::size_t at = 0; at < kPieceBytes; at += kLineBytes)
      __builtin_prefetch(begin + at, 0, 2);
  }
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
