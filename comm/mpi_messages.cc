#include "comm/mpi_messages.h"

#include <fmt/format.h>

#include <algorithm>

namespace shardlm {
namespace {

// A tag holds the op, the kind of site and the call's number: 2 + 3 + 10 bits, the 15 that MPI
// grants at least. A rank whose collectives are out of step is so found by its first message.
constexpr unsigned kNumberBits = 10;

int tag_of(const Call& call) {
  const auto number = static_cast<int>(call.number & ((1U << kNumberBits) - 1));
  return number << 5 | static_cast<int>(call.op) << 3 | static_cast<int>(call.site.kind);
}

std::string tag_text(int tag, int bytes) {
  const Call call{static_cast<Op>(tag >> 3 & 3),
                  {static_cast<SiteKind>(tag & 7), -1},
                  static_cast<std::uint64_t>(tag >> 5)};
  return fmt::format("{}, modulo 1024, with {} bytes", call_text(call), bytes);
}

constexpr double kCancelFor_s = 0.1;

}  // namespace

MpiMessages::MpiMessages(MPI_Comm comm, Deadlines deadlines, bool oversubscribed,
                         std::size_t piece_bytes)
    : comm_(comm), deadlines_(deadlines), waiter_(oversubscribed), piece_bytes_(piece_bytes) {
  check_mpi(MPI_Comm_rank(comm_, &rank_), "MPI_Comm_rank");
  check_mpi(MPI_Comm_size(comm_, &size_), "MPI_Comm_size");
  last_seen_.resize(static_cast<std::size_t>(size_));
}

// Calls back what is still under way, as far as MPI can.
void MpiMessages::cancel() {
  for (Message& message : messages_) {
    if (message.request == MPI_REQUEST_NULL) continue;
    if (message.incoming) {
      MPI_Cancel(&message.request);
      const auto ended = [&message] {
        int flag = 0;
        MPI_Test(&message.request, &flag, MPI_STATUS_IGNORE);
        return flag != 0;
      };
      if (wait_until(ended, waiter_, kCancelFor_s)) continue;
    }
    MPI_Request_free(&message.request);
  }
  messages_.clear();
}

void MpiMessages::send(const Call& call, std::span<const std::byte> from, int to_rank) {
  count_sent(from.size());
  std::size_t at = 0;
  do {
    const std::size_t bytes = std::min(piece_bytes_, from.size() - at);
    Message message{MPI_REQUEST_NULL, to_rank, false, true, bytes};
    check_mpi(MPI_Isend(from.data() + at, static_cast<int>(bytes), MPI_BYTE, to_rank, tag_of(call),
                        comm_, &message.request),
              "MPI_Isend");
    messages_.push_back(message);
    at += bytes;
  } while (at < from.size());
}

void MpiMessages::receive(std::span<std::byte> to, int from_rank) {
  std::size_t at = 0;
  do {
    const std::size_t bytes = std::min(piece_bytes_, to.size() - at);
    start_receive(to.subspan(at, bytes), from_rank, true);
    at += bytes;
  } while (at < to.size());
}

void MpiMessages::receive_up_to(std::span<std::byte> to, int from_rank) {
  start_receive(to, from_rank, false);
}

void MpiMessages::start_receive(std::span<std::byte> to, int from_rank, bool exact) {
  Message message{MPI_REQUEST_NULL, from_rank, true, exact, to.size()};
  check_mpi(MPI_Irecv(to.data(), static_cast<int>(to.size()), MPI_BYTE, from_rank, MPI_ANY_TAG,
                      comm_, &message.request),
            "MPI_Irecv");
  messages_.push_back(message);
}

bool MpiMessages::arrived(const Call& call, Message& message) {
  int flag = 0;
  MPI_Status status;
  const int error = MPI_Test(&message.request, &flag, &status);
  if (error == MPI_SUCCESS && flag == 0) return false;
  if (!message.incoming) check_mpi(error, "MPI_Isend");
  if (message.incoming) {
    check_received(call, message, error, status);
    last_seen_[static_cast<std::size_t>(message.peer)] = call;
  }
  return true;
}

void MpiMessages::check_received(const Call& call, const Message& message, int error,
                                 const MPI_Status& status) {
  int bytes = 0;
  if (error == MPI_SUCCESS) {
    check_mpi(MPI_Get_count(&status, MPI_BYTE, &bytes), "MPI_Get_count");
    const bool right_size = !message.exact || static_cast<std::size_t>(bytes) == message.bytes;
    if (status.MPI_TAG == tag_of(call) && right_size) return;
  }
  int error_class = MPI_SUCCESS;
  if (error != MPI_SUCCESS) MPI_Error_class(error, &error_class);
  if (error_class != MPI_ERR_TRUNCATE) check_mpi(error, "MPI_Irecv");
  fail_out_of_step(call, message.peer,
                   fmt::format("{}{} bytes", message.exact ? "" : "at most ", message.bytes),
                   error == MPI_SUCCESS ? tag_text(status.MPI_TAG, bytes) : "a longer message");
}

void MpiMessages::finish(const Call& call, bool indirect) {
  std::size_t next = 0;
  const auto all_arrived = [&] {
    while (next < messages_.size() && arrived(call, messages_[next])) ++next;
    return next == messages_.size();
  };
  const double own_s = wait_limit(call, false, deadlines_);
  const double limit_s = indirect ? limit_behind(own_s) : own_s;
  try {
    if (!wait_until(all_arrived, waiter_, limit_s)) fail_late(call, next, limit_s);
  } catch (...) {
    broken_ = true;
    cancel();
    throw;
  }
  messages_.clear();
}

void MpiMessages::fail_late(const Call& call, std::size_t first, double limit_s) {
  std::vector<int> missing;
  for (std::size_t i = first; i < messages_.size(); ++i) {
    if (!arrived(call, messages_[i])) missing.push_back(messages_[i].peer);
  }
  std::sort(missing.begin(), missing.end());
  missing.erase(std::unique(missing.begin(), missing.end()), missing.end());
  std::vector<LastSeen> last;
  for (int r : missing) last.push_back({r, last_seen_[static_cast<std::size_t>(r)]});
  fail_missing(call, missing, limit_s, last);
}

}  // namespace shardlm
