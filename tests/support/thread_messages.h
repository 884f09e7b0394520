// Messages between ranks that are threads of one process: what tests of the algorithms by messages
// run on, so that the sanitizers see all ranks.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>

#include "comm/communicator.h"
#include "comm/messages.h"

namespace shardlm {

struct ThreadMessageOptions {
  Deadlines deadlines{60, 60};
  /// Messages up to this are copied when they are sent; larger ones are read from the sender's
  /// memory, whose finish() waits until they are: an algorithm must live with both.
  std::size_t eager_bytes = 1000;
};

/// The mail of all ranks of a group.
class ThreadPost {
 public:
  explicit ThreadPost(int size, const ThreadMessageOptions& options = {});
  ~ThreadPost();
  ThreadPost(const ThreadPost&) = delete;
  ThreadPost& operator=(const ThreadPost&) = delete;

  /// A rank's end, once for each rank. Who waits for a rank whose end is gone hears so at once. The
  /// post must outlive it.
  std::unique_ptr<Messages> join(int rank);

 private:
  class End;
  struct Mail;
  std::unique_ptr<Mail> mail_;
};

/// Runs body(rank, messages) on `size` threads and rethrows the first exception that one of them
/// threw, once all have ended; see run_ranks (tests/support/thread_ranks.h).
void run_message_ranks(int size, const std::function<void(int, Messages&)>& body,
                       const ThreadMessageOptions& options = {});

}  // namespace shardlm
