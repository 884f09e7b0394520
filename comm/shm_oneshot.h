// All-reduce over shared memory, one-shot: every rank reads every rank's addend where it was
// written. One wait a call; the sum is the reader's, in one pass with whatever else it does.
#pragma once

#include <vector>

#include "backend/backend.h"
#include "comm/all_reducer.h"
#include "comm/shm_team.h"

namespace shardlm {

class ShmOneShot final : public AllReducer {
 public:
  ShmOneShot(ShmTeam& team, Backend& backend);

  std::size_t most_bytes() const override { return team_.slot_bytes(); }
  /// In this rank's slot, if the addend fits one.
  std::optional<Tensor> addend(const Call& next, std::int64_t rows, std::int64_t cols,
                               DType dtype) override;
  /// The ranks' slots, in rank order.
  std::span<const Tensor> reduce(const Call& call, const Tensor& addend) override;
  void release() override;
  std::uint64_t sent_bytes() const override { return sent_bytes_; }

 private:
  ShmTeam& team_;
  Backend& backend_;
  std::vector<Tensor> addends_;
  std::uint64_t sent_bytes_ = 0;
};

}  // namespace shardlm
