#include "comm/message_meetings.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>

namespace shardlm {
namespace {

// A message of unknown length starts with one of at most this size: its length and first bytes.
// Small enough for MPI libraries to send without asking the receiver first.
constexpr std::size_t kFirstBytes = 4000;
using FirstPart = std::array<std::byte, kFirstBytes>;
constexpr std::size_t kFirstPayload = kFirstBytes - sizeof(std::uint64_t);

// The length and the first bytes; the rest of the message, if any, goes on its own.
std::span<const std::byte> pack_first(std::span<const std::byte> message, FirstPart& first) {
  const std::uint64_t total = message.size();
  const std::size_t payload = std::min(message.size(), kFirstPayload);
  std::memcpy(first.data(), &total, sizeof total);
  std::copy_n(message.data(), payload, first.data() + sizeof total);
  return {first.data(), sizeof total + payload};
}

// Resizes the message and fills in its first bytes; returns how many.
std::size_t unpack_first(const FirstPart& first, std::vector<std::byte>& message) {
  std::uint64_t total = 0;
  std::memcpy(&total, first.data(), sizeof total);
  message.resize(total);
  const std::size_t payload = std::min<std::size_t>(total, kFirstPayload);
  std::copy_n(first.data() + sizeof total, payload, message.data());
  return payload;
}

std::size_t index(int rank) { return static_cast<std::size_t>(rank); }

class MessageMeetings final : public Meetings {
 public:
  explicit MessageMeetings(Messages& messages)
      : messages_(messages), first_parts_(index(messages.size())) {}

  void broadcast(const Call& call, std::vector<std::byte>& message, int root) override;
  void gather(const Call& call, std::span<const std::byte> mine,
              std::vector<std::vector<std::byte>>& all, int root) override;
  void barrier(const Call& call) override;
  std::uint64_t sent_bytes() const override { return messages_.sent_bytes(); }

 private:
  void send_from_root(const Call& call, std::span<const std::byte> message);
  // Calls f(peer) for all other ranks, each rank starting with its neighbour, so that not all
  // senders meet at rank 0 first.
  template <class F>
  void each_peer(F&& f) const {
    for (int step = 1; step < messages_.size(); ++step) {
      f((messages_.rank() + step) % messages_.size());
    }
  }

  Messages& messages_;
  std::vector<FirstPart> first_parts_;
};

void MessageMeetings::send_from_root(const Call& call, std::span<const std::byte> message) {
  const auto head = pack_first(message, first_parts_[index(messages_.rank())]);
  each_peer([&](int peer) {
    messages_.send(call, head, peer);
    if (message.size() > kFirstPayload) {
      messages_.send(call, message.subspan(kFirstPayload), peer);
    }
  });
  messages_.finish(call);
}

void MessageMeetings::broadcast(const Call& call, std::vector<std::byte>& message, int root) {
  if (messages_.rank() == root) return send_from_root(call, message);
  FirstPart& first = first_parts_[index(root)];
  messages_.receive_up_to(first, root);
  messages_.finish(call, true);
  const std::size_t there = unpack_first(first, message);
  if (message.size() == there) return;
  messages_.receive(std::span(message).subspan(there), root);
  messages_.finish(call, true);
}

void MessageMeetings::gather(const Call& call, std::span<const std::byte> mine,
                             std::vector<std::vector<std::byte>>& all, int root) {
  const int rank = messages_.rank();
  if (rank != root) {
    messages_.send(call, pack_first(mine, first_parts_[index(rank)]), root);
    if (mine.size() > kFirstPayload) messages_.send(call, mine.subspan(kFirstPayload), root);
    messages_.finish(call);
    return;
  }
  all.resize(index(messages_.size()));
  all[index(rank)].assign(mine.begin(), mine.end());
  each_peer([&](int peer) { messages_.receive_up_to(first_parts_[index(peer)], peer); });
  messages_.finish(call);
  each_peer([&](int peer) {
    std::vector<std::byte>& theirs = all[index(peer)];
    const std::size_t there = unpack_first(first_parts_[index(peer)], theirs);
    if (theirs.size() > there) messages_.receive(std::span(theirs).subspan(there), peer);
  });
  messages_.finish(call);
}

void MessageMeetings::barrier(const Call& call) {
  each_peer([&](int peer) { messages_.receive({}, peer); });
  each_peer([&](int peer) { messages_.send(call, {}, peer); });
  messages_.finish(call);
}

}  // namespace

std::unique_ptr<Meetings> make_message_meetings(Messages& messages) {
  return std::make_unique<MessageMeetings>(messages);
}

}  // namespace shardlm
