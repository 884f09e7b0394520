// The messages in flight of one call: started at once, awaited with a deadline. For
// comm/mpi_*.cc alone.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "comm/call.h"
#include "comm/mpi_handles.h"
#include "comm/wait.h"

namespace shardlm {

class MpiMessages {
 public:
  /// `piece_bytes`: messages above are cut (MPI counts in int).
  MpiMessages(MPI_Comm comm, Deadlines deadlines, bool oversubscribed, std::size_t piece_bytes);
  ~MpiMessages() { cancel(); }
  MpiMessages(const MpiMessages&) = delete;
  MpiMessages& operator=(const MpiMessages&) = delete;

  /// The memory must stay until finish(). Messages from one rank arrive in the order in which that
  /// rank sent them, whatever their tag.
  void send(const Call& call, std::span<const std::byte> from, int to_rank);
  /// A message of exactly to.size() bytes.
  void receive(std::span<std::byte> to, int from_rank);
  /// A message, in one piece, of at most to.size() bytes.
  void receive_up_to(std::span<std::byte> to, int from_rank);

  /// Waits for all of the above. Throws if ranks do not come in time (naming them), or if a message
  /// is of another call than this; the group is then broken, and no memory is in use any more.
  void finish(const Call& call, bool waits_for_root = false);

  bool broken() const { return broken_ || !messages_.empty(); }

 private:
  struct Message {
    MPI_Request request = MPI_REQUEST_NULL;
    int peer = 0;
    bool incoming = false;
    bool exact = true;
    std::size_t bytes = 0;
  };

  void cancel();
  void start_receive(std::span<std::byte> to, int from_rank, bool exact);
  bool arrived(const Call& call, Message& message);
  void check_received(const Call& call, const Message& message, int error,
                      const MPI_Status& status);
  [[noreturn]] void fail_late(const Call& call, std::size_t first, double limit_s);

  MPI_Comm comm_;
  Deadlines deadlines_;
  Waiter waiter_;
  std::size_t piece_bytes_;
  std::vector<Message> messages_;
  bool broken_ = false;
};

}  // namespace shardlm
