// The collectives over shared memory as a Communicator of their own.
#pragma once

#include <cstdint>
#include <vector>

#include "comm/communicator.h"
#include "comm/shm_meetings.h"
#include "comm/shm_oneshot.h"
#include "comm/shm_team.h"

namespace shardlm {

class ShmCommunicator final : public Communicator {
 public:
  static std::size_t segment_bytes(std::size_t slot_bytes = ShmTeam::kSlotBytes) {
    return ShmTeam::segment_bytes(slot_bytes);
  }

  ShmCommunicator(int rank, ShmSegments segments, Backend& backend, const ShmOptions& options);

  int rank() const override { return team_.rank(); }
  int size() const override { return team_.size(); }
  std::string describe() const override { return team_.describe(); }

  /// In this rank's slot, if the addend fits one.
  std::optional<Tensor> addend(Site site, std::int64_t rows, std::int64_t cols,
                               DType dtype) override;
  /// The addends are summed straight from the ranks' slots, in one pass with the update. Messages
  /// above a slot go in chunks of whole rows; a row above a slot is summed by columns first.
  void all_reduce(Site site, const Tensor& addend, const ResidualUpdate& update) override;
  void broadcast(Site site, std::vector<std::byte>& message, int root) override;
  void gather(Site site, std::span<const std::byte> mine, std::vector<std::vector<std::byte>>& all,
              int root) override;
  void barrier(Site site) override;

 private:
  void all_reduce_wide_row(const Call& call, const Tensor& row, const ResidualUpdate& update,
                           std::int64_t at);

  Backend& backend_;
  ShmTeam team_;
  ShmMeetings meetings_;
  ShmOneShot reducer_;
  std::uint64_t calls_ = 0;
  std::vector<float> sum_;  ///< a row above a slot
};

}  // namespace shardlm
