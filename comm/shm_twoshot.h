// All-reduce over shared memory, two-shot: every rank sums one slice of the message in rank order
// and leaves the sum in place, in rank 0's slot; then all read all slices there. Two waits a call,
// but P times less to sum for each: for more than two ranks, or long messages.
//
// Only the owner of a slice reads it in the ranks' slots, so it may put the sum where rank 0's
// addend stood. A long message is cut into chunks: while a rank copies its addend of one, the
// others' addends of the chunk before are on their way.
#pragma once

#include <vector>

#include "backend/backend.h"
#include "comm/all_reducer.h"
#include "comm/held_addend.h"
#include "comm/message_sums.h"
#include "comm/shm_team.h"
#include "comm/wire_codec.h"

namespace shardlm {

class ShmTwoShot final : public AllReducer {
 public:
  /// A format that rounds: addends and sums stand rounded in shared memory. Fixed point wants f32.
  ShmTwoShot(ShmTeam& team, Backend& backend, WireFormat wire = WireFormat::f32);

  std::size_t most_bytes() const override { return team_.slot_bytes(); }
  /// In this rank's slot, if the addend fits one.
  std::optional<Tensor> addend(const Call& next, std::int64_t rows, std::int64_t cols,
                               DType dtype) override;
  /// The sum, in rank 0's slot if it was not rounded.
  std::span<const Tensor> reduce(const Call& call, const Tensor& addend) override;
  void release() override;
  std::uint64_t sent_bytes() const override { return sent_bytes_; }

 private:
  /// The message at hand: its elements stand in slots as codec's messages do.
  struct Message {
    const WireCodec* codec = nullptr;
    std::size_t elements = 0, chunks = 0;
    const std::byte* held = nullptr;  ///< what is rounded
    Tensor flat;                      ///< [1, elements]: what is copied chunk by chunk
  };

  void begin(const Tensor& addend);
  Slice chunk_range(std::size_t chunk) const;
  std::byte* at(int rank, std::size_t element) const;
  void put(std::size_t chunk);
  void sum(const Call& call, std::size_t chunk);
  void sum_slice(Slice slice);

  ShmTeam& team_;
  Backend& backend_;
  WireFormat wire_;
  HeldAddend held_;
  Message message_;
  std::vector<const std::byte*> addends_;  ///< the ranks', of one slice
  std::vector<float> sum_;                 ///< of what was rounded
  Tensor returned_;
  std::uint64_t sent_bytes_ = 0;
};

}  // namespace shardlm
