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
#include "comm/message_sums.h"
#include "comm/shm_team.h"

namespace shardlm {

class ShmTwoShot final : public AllReducer {
 public:
  ShmTwoShot(ShmTeam& team, Backend& backend);

  std::size_t most_bytes() const override { return team_.slot_bytes(); }
  /// In this rank's slot, if the addend fits one.
  std::optional<Tensor> addend(const Call& next, std::int64_t rows, std::int64_t cols,
                               DType dtype) override;
  /// The sum, in rank 0's slot.
  std::span<const Tensor> reduce(const Call& call, const Tensor& addend) override;
  void release() override;
  std::uint64_t sent_bytes() const override { return sent_bytes_; }

 private:
  Slice chunk_range(std::size_t chunk) const;
  void put_chunk(const Tensor& addend, std::size_t chunk);
  void sum_chunk(const Call& call, std::size_t chunk);

  ShmTeam& team_;
  Backend& backend_;
  SumType type_ = SumType::f32;
  std::size_t elements_ = 0, element_bytes_ = 0, chunks_ = 0;  ///< of the message at hand
  std::vector<const std::byte*> addends_;                      ///< the ranks', of one slice
  Tensor sum_;
  std::uint64_t sent_bytes_ = 0;
};

}  // namespace shardlm
