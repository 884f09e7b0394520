// Messages between two ranks, there and back: what a class of links costs (comm_study 2.3).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "comm/emulated_network.h"
#include "comm/messages.h"
#include "comm/shm_team.h"

namespace shardlm {

/// A way for bytes between this rank and another one.
class Path {
 public:
  virtual ~Path() = default;
  virtual void send(std::span<const std::byte> from) = 0;
  virtual void receive(std::span<std::byte> to) = 0;
  /// The largest message in one piece.
  virtual std::size_t most_bytes() const = 0;
};

/// The all-reduces' messages. `peer`: in the group of Messages.
std::unique_ptr<Path> make_message_path(Messages& messages, int peer);
/// A phase of a team of the two alone, as the all-reduces over shared memory have it: put into the
/// slot, flag, wait, read. A message of n bytes is copied in and copied out once.
std::unique_ptr<Path> make_memory_path(ShmTeam& pair);
/// Messages arrive as late as over the emulated network: a round of n bytes.
std::unique_ptr<Path> make_emulated_path(std::unique_ptr<Path> real, const Emulation& emulation,
                                         NetworkClock& clock);

/// One way of one size: half of there and back.
struct SizeTimes {
  std::size_t bytes = 0;
  std::vector<double> seconds;
};

/// 0, 8, 16, 32, then half octaves from 64 B to `most`.
std::vector<std::size_t> ping_pong_sizes(std::size_t most = std::size_t{4} << 20);

/// Both ranks call it with the same sizes; times are those of the one that is `first`, who tells
/// the other how often. All sizes take turns, so that a drift of the machine strikes them alike.
/// About `seconds` in all.
std::vector<SizeTimes> ping_pong(Path& path, bool first, std::span<const std::size_t> sizes,
                                 double seconds);

/// `o`: rank `root` starts k messages of 8 bytes, one after another, to `peers` in turn, k = 1 … 8;
/// the slope of the median times over k. Called by the root and all peers; 0 elsewhere.
double posting_s(Messages& messages, int root, std::span<const int> peers);

/// A phase of the whole team, each rank waiting for all: the 5th percentile, on every rank.
double phase_s(ShmTeam& team);

}  // namespace shardlm
