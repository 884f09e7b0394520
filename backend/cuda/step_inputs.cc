#include "backend/cuda/step_inputs.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "backend/cuda/check.h"
#include "base/error.h"

namespace shardlm::cuda {
namespace {

constexpr std::size_t kAlignment = 16;

template <class T>
std::size_t padded_bytes(const std::vector<T>& values) {
  return (values.size() * sizeof(T) + kAlignment - 1) / kAlignment * kAlignment;
}

void pad(std::vector<std::int32_t>& values, std::int64_t size, std::int32_t with) {
  values.resize(std::max(values.size(), static_cast<std::size_t>(size)), with);
}

std::int32_t narrow(std::int64_t value) { return static_cast<std::int32_t>(value); }

}  // namespace

std::int64_t token_bucket(std::int64_t tokens) {
  return std::max<std::int64_t>(
      kDecodeKeys, static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(tokens))));
}

void StepInputs::add_sequence(const SequenceRows& s) {
  check(s.first_row == std::ssize(row_sequence_), "a step's sequences follow one another");
  row_sequence_.insert(row_sequence_.end(), static_cast<std::size_t>(s.n_rows),
                       narrow(std::ssize(slots_)));
  slots_.push_back({.first_row = narrow(s.first_row),
                    .n_rows = narrow(s.n_rows),
                    .start = narrow(s.start),
                    .block_table_offset = narrow(std::ssize(blocks_))});
  blocks_.insert(blocks_.end(), s.blocks.begin(), s.blocks.end());
  sequences_.one_row_each = sequences_.one_row_each && s.n_rows == 1;
  sequences_.max_tokens = std::max(sequences_.max_tokens, s.start + s.n_rows);
}

void StepInputs::fill(const Step& step, std::int64_t rows) {
  const auto copy = [](const Indices& from, std::vector<std::int32_t>& to) {
    to.assign(from.host.begin(), from.host.end());
  };
  copy(step.ids, ids_);
  copy(step.positions, positions_);
  copy(step.logit_rows, logit_rows_);
  row_sequence_.clear();
  slots_.clear();
  blocks_.clear();
  tiles_.clear();
  sequences_ = {.batch = {}, .one_row_each = true, .max_tokens = 0};
  for (const SequenceRows& s : step.sequences.host) add_sequence(s);
  sequences_.max_tokens = token_bucket(sequences_.max_tokens);
  pad(ids_, rows, -1);
  pad(positions_, rows, 0);
  pad(logit_rows_, rows, -1);
  pad(row_sequence_, std::ssize(ids_), -1);
  slots_.resize(std::max(slots_.size(), static_cast<std::size_t>(rows)));
  if (!sequences_.one_row_each) tiles_ = prefill_tiles(slots_, std::ssize(ids_));
}

std::size_t StepInputs::bytes() const {
  return padded_bytes(ids_) + padded_bytes(positions_) + padded_bytes(logit_rows_) +
         padded_bytes(row_sequence_) + padded_bytes(slots_) + padded_bytes(tiles_) +
         padded_bytes(blocks_);
}

// Room for `bytes`, and a host side that the device has finished reading.
void StepInputs::reserve(const Stream& stream, std::size_t bytes) {
  if (copied_ == nullptr) copied_ = make_event();
  stream.wait(copied_);
  moved_ = bytes > device_.bytes();
  if (!moved_) return;
  stream.wait();  // what reads the old buffers
  const std::size_t room = std::bit_ceil(std::max<std::size_t>(bytes, 4096));
  device_ = DeviceBlock(room, "a step's inputs");
  pinned_ = PinnedBlock(room);
}

template <class T>
const T* StepInputs::put(const std::vector<T>& values) {
  if (!values.empty()) {
    std::memcpy(pinned_.data() + at_, values.data(), values.size() * sizeof(T));
  }
  const auto* on_device = reinterpret_cast<const T*>(device_.data() + at_);
  at_ += padded_bytes(values);
  return on_device;
}

Step StepInputs::stage(const Stream& stream, const Step& step, std::int64_t rows) {
  fill(step, rows);
  reserve(stream, bytes());
  at_ = 0;
  Step staged;
  staged.ids = Indices(ids_, put(ids_));
  staged.positions = Indices(positions_, put(positions_));
  staged.logit_rows = Indices(logit_rows_, put(logit_rows_));
  sequences_.batch = {.sequences = put(slots_),
                      .n_sequences = std::ssize(slots_),
                      .blocks = nullptr,
                      .row_sequence = put(row_sequence_),
                      .n_rows = std::ssize(row_sequence_),
                      .tiles = put(tiles_),
                      .n_tiles = std::ssize(tiles_)};
  sequences_.batch.blocks = put(blocks_);  // last: their number grows within a recorded pass
  staged.sequences = Sequences(step.sequences.host, &sequences_);
  staged.repeatable = step.repeatable;
  check_cuda(
      cudaMemcpyAsync(device_.data(), pinned_.data(), at_, cudaMemcpyHostToDevice, stream.get()),
      "copying a step's inputs to the device");
  check_cuda(cudaEventRecord(copied_.get(), stream.get()), "recording an event");
  return staged;
}

}  // namespace shardlm::cuda
