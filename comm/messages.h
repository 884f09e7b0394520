// Messages of bytes between the ranks of a group: what the collectives are made of where there is
// no shared memory. One implementation over MPI, one between the threads of a test.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "comm/call.h"

namespace shardlm {

/// One rank's end. Messages are started at once and awaited together, with a deadline.
class Messages {
 public:
  virtual ~Messages() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;

  /// The memory must stay untouched until finish(). Messages from one rank arrive in the order in
  /// which that rank sent them.
  virtual void send(const Call& call, std::span<const std::byte> from, int to_rank) = 0;
  /// A message of exactly to.size() bytes.
  virtual void receive(std::span<std::byte> to, int from_rank) = 0;
  /// A message of at most to.size() bytes.
  virtual void receive_up_to(std::span<std::byte> to, int from_rank) = 0;

  /// Waits for all of the above. Throws Error(ExitCode::peer) naming the ranks that do not come in
  /// time, Error(ExitCode::bug) if a message is of another call or size; the group is then broken,
  /// and no memory is in use any more. `indirect`: who sends to this rank waits for others before;
  /// this rank waits a little longer than they do (limit_behind), so that the one that knows the
  /// culprit speaks first.
  virtual void finish(const Call& call, bool indirect = false) = 0;

  /// All bytes that this rank has sent.
  std::uint64_t sent_bytes() const { return sent_bytes_; }

 protected:
  void count_sent(std::size_t bytes) { sent_bytes_ += bytes; }

 private:
  std::uint64_t sent_bytes_ = 0;
};

}  // namespace shardlm
