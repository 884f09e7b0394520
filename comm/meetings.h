// The collectives that carry bytes rather than sums, over one transport.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "comm/call.h"

namespace shardlm {

/// See Communicator.
class Meetings {
 public:
  virtual ~Meetings() = default;
  virtual void broadcast(const Call& call, std::vector<std::byte>& message, int root) = 0;
  virtual void gather(const Call& call, std::span<const std::byte> mine,
                      std::vector<std::vector<std::byte>>& all, int root) = 0;
  virtual void barrier(const Call& call) = 0;
  /// See AllReducer.
  virtual std::uint64_t sent_bytes() const = 0;
};

}  // namespace shardlm
