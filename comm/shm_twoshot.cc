#include "comm/shm_twoshot.h"

#include <algorithm>

#include "comm/shm_addend.h"
#include "comm/sum_in_order.h"

namespace shardlm {
namespace {

constexpr std::size_t kChunkBytes = std::size_t{32} << 10;  // of held elements

// The steps of a phase in which C chunks are put and summed, each in its turn: put 0, put 1, sum 0,
// put 2, sum 1, …, put C-1, sum C-2, sum C-1.
std::uint32_t put_step(std::size_t chunk) {
  return chunk == 0 ? 1 : static_cast<std::uint32_t>(2 * chunk);
}
std::uint32_t sum_step(std::size_t chunk, std::size_t chunks) {
  return static_cast<std::uint32_t>(chunk + 1 < chunks ? 2 * chunk + 3 : 2 * chunks);
}

// Slices begin at multiples of this: no two ranks write into one line (int8: seldom).
std::size_t slice_block(const WireCodec& codec) {
  constexpr std::size_t kMany = 1024;
  const std::size_t element_bytes = codec.wire_bytes(kMany) / kMany;  // int8: without the scales
  return std::max(codec.block(), ShmTeam::kAlignment / element_bytes);
}

}  // namespace

ShmTwoShot::ShmTwoShot(ShmTeam& team, Backend& backend, WireFormat wire)
    : team_(team),
      backend_(backend),
      wire_(wire),
      held_(backend),
      addends_(static_cast<std::size_t>(team.size())) {}

std::optional<Tensor> ShmTwoShot::addend(const Call& next, std::int64_t rows, std::int64_t cols,
                                         DType dtype) {
  if (wire_ != WireFormat::f32) return held_.offer(rows, cols, dtype);
  return addend_in_next_slot(team_, next, rows, cols, dtype);
}

std::span<const Tensor> ShmTwoShot::reduce(const Call& call, const Tensor& addend) {
  const ShmLabel label = sum_label(call, addend, Algorithm::shm_twoshot, wire_);
  team_.begin_phase(call);
  begin(addend);
  const std::size_t chunks = message_.chunks;
  for (std::size_t chunk = 0; chunk < chunks; ++chunk) {
    put(chunk);
    if (chunk == 0) {
      team_.arrive(label);
      team_.wait_for_all(call);
      team_.check_labels(call, label);
    } else {
      team_.reach(put_step(chunk));
      sum(call, chunk - 1);
    }
  }
  sum(call, chunks - 1);
  team_.wait_for_all(call, sum_step(chunks - 1, chunks));
  std::byte* result = team_.slot(0);
  if (!message_.codec->plain()) {
    sum_.resize(std::max(sum_.size(), message_.elements));
    result = reinterpret_cast<std::byte*>(sum_.data());
    message_.codec->decode(team_.slot(0), message_.elements, result);
  }
  returned_ = Tensor::borrow(result, addend.rows(), addend.cols(), addend.dtype());
  return {&returned_, 1};
}

void ShmTwoShot::begin(const Tensor& addend) {
  const SumType type = HeldAddend::type_of(addend.dtype());
  const std::size_t n = elements_of(addend);
  message_ = Message();
  message_.codec = &wire_codec(type, wire_);
  message_.elements = n;
  message_.chunks =
      std::max<std::size_t>(1, (n * held_bytes(type) + kChunkBytes - 1) / kChunkBytes);
  if (!message_.codec->plain()) {
    message_.held = held_.take(addend);
  } else if (addend.contiguous() && addend.address(0) != team_.slot(team_.rank())) {
    message_.flat = Tensor::borrow(addend.address(0), 1, addend.elements(), addend.dtype());
  } else {
    put_addend(team_, backend_, addend);  // all at once, if it is not there already
  }
}

Slice ShmTwoShot::chunk_range(std::size_t chunk) const {
  const std::size_t at_once = kChunkBytes / held_bytes(message_.codec->held());
  return {std::min(message_.elements, chunk * at_once),
          std::min(message_.elements, (chunk + 1) * at_once)};
}

std::byte* ShmTwoShot::at(int rank, std::size_t element) const {
  return team_.slot(rank) + message_.codec->wire_bytes(element);
}

void ShmTwoShot::put(std::size_t chunk) {
  const Slice range = chunk_range(chunk);
  std::byte* const to = at(team_.rank(), range.begin);
  const WireCodec& codec = *message_.codec;
  if (message_.held != nullptr) {
    codec.encode(message_.held + range.begin * held_bytes(codec.held()), range.size(), to);
  } else if (message_.flat.elements() > 0) {
    copy_elements(backend_,
                  message_.flat.columns(static_cast<std::int64_t>(range.begin),
                                        static_cast<std::int64_t>(range.end)),
                  to);
  }
  sent_bytes_ += codec.wire_bytes(range.size());
}

void ShmTwoShot::sum(const Call& call, std::size_t chunk) {
  team_.wait_for_all(call, put_step(chunk));
  const Slice range = chunk_range(chunk);
  const Slice mine =
      slice_of(range.size(), slice_block(*message_.codec), team_.rank(), team_.size());
  if (mine.size() > 0) sum_slice({range.begin + mine.begin, range.begin + mine.end});
  sent_bytes_ += message_.codec->wire_bytes(mine.size());
  team_.reach(sum_step(chunk, message_.chunks));
}

void ShmTwoShot::sum_slice(Slice slice) {
  const WireCodec& codec = *message_.codec;
  for (int r = 0; r < team_.size(); ++r) {
    addends_[static_cast<std::size_t>(r)] = at(r, slice.begin);
  }
  if (codec.plain()) {
    sum_in_order(addends_, codec.held(), slice.size(), at(0, slice.begin));
    return;
  }
  sum_.resize(std::max(sum_.size(), slice.size()));
  auto* const sum = reinterpret_cast<std::byte*>(sum_.data());
  codec.decode(addends_[0], slice.size(), sum);
  for (int r = 1; r < team_.size(); ++r) {
    codec.add(addends_[static_cast<std::size_t>(r)], slice.size(), sum);
  }
  codec.encode(sum, slice.size(), at(0, slice.begin));
}

void ShmTwoShot::release() {
  backend_.synchronize();  // the peers may overwrite their slots after finish()
  team_.finish();
}

}  // namespace shardlm
