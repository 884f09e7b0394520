// All-reduce over shared memory, one-shot: every rank reads every rank's addend where it was
// written. One wait a call; the sum is the reader's, in one pass with whatever else it does.
#pragma once

#include <vector>

#include "backend/backend.h"
#include "comm/all_reducer.h"
#include "comm/held_addend.h"
#include "comm/shm_team.h"
#include "comm/wire_codec.h"

namespace shardlm {

class ShmOneShot final : public AllReducer {
 public:
  /// A format that rounds: the addends stand rounded in shared memory, this rank's own as well, and
  /// each rank adds them up. Fixed point wants f32.
  ShmOneShot(ShmTeam& team, Backend& backend, WireFormat wire = WireFormat::f32);

  std::size_t most_bytes() const override { return team_.slot_bytes(); }
  /// In this rank's slot, if the addend fits one.
  std::optional<Tensor> addend(const Call& next, std::int64_t rows, std::int64_t cols,
                               DType dtype) override;
  /// The ranks' slots, in rank order; or the sum of what was rounded.
  std::span<const Tensor> reduce(const Call& call, const Tensor& addend) override;
  void release() override;
  bool only_waits() const override { return wire_ == WireFormat::f32; }
  std::uint64_t sent_bytes() const override { return sent_bytes_; }

 private:
  void sum_rounded(const WireCodec& codec, const Tensor& shape);

  ShmTeam& team_;
  Backend& backend_;
  WireFormat wire_;
  HeldAddend held_;  ///< what is rounded
  std::vector<float> sum_;
  std::vector<Tensor> returned_;
  std::uint64_t sent_bytes_ = 0;
};

}  // namespace shardlm
