// Broadcast, gather and barrier over shared memory.
#pragma once

#include "comm/meetings.h"
#include "comm/shm_team.h"

namespace shardlm {

class ShmMeetings final : public Meetings {
 public:
  explicit ShmMeetings(ShmTeam& team) : team_(team) {}

  void broadcast(const Call& call, std::vector<std::byte>& message, int root) override;
  void gather(const Call& call, std::span<const std::byte> mine,
              std::vector<std::vector<std::byte>>& all, int root) override;
  void barrier(const Call& call) override;
  std::uint64_t sent_bytes() const override { return sent_bytes_; }

 private:
  void write(std::span<const std::byte> part);

  ShmTeam& team_;
  std::uint64_t sent_bytes_ = 0;
};

}  // namespace shardlm
