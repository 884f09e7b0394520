// Messages over MPI's point-to-point ones. For comm/mpi_*.cc alone.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "comm/call.h"
#include "comm/messages.h"
#include "comm/mpi_handles.h"
#include "comm/wait.h"

namespace shardlm {

class MpiMessages : public Messages {
 public:
  /// `piece_bytes`: messages above are cut (MPI counts in int).
  MpiMessages(MPI_Comm comm, Deadlines deadlines, bool oversubscribed, std::size_t piece_bytes);
  ~MpiMessages() override { cancel(); }
  MpiMessages(const MpiMessages&) = delete;
  MpiMessages& operator=(const MpiMessages&) = delete;

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  void send(const Call& call, std::span<const std::byte> from, int to_rank) override;
  void receive(std::span<std::byte> to, int from_rank) override;
  /// In one piece: of at most `piece_bytes`.
  void receive_up_to(std::span<std::byte> to, int from_rank) override;
  void finish(const Call& call, bool indirect = false) override;

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
  int rank_ = 0, size_ = 1;
  Deadlines deadlines_;
  Waiter waiter_;
  std::size_t piece_bytes_;
  std::vector<Message> messages_;
  std::vector<Call> last_seen_;  ///< by peer: of its last message
  bool broken_ = false;
};

}  // namespace shardlm
