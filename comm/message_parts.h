// What the algorithms of message_sums.h are made of: parts of a sum, sent and received. For
// comm/message_sums*.cc alone.
#pragma once

#include "comm/message_sums.h"

namespace shardlm {

/// Every element has one place in the sum's image, the elements as a message would hold them: the
/// held memory itself if the codec is plain, scratch.image if not. A part of the image that begins
/// at a block is a message, and is passed on as it came.
class MessageParts {
 public:
  /// `slots` addends of at most `largest` elements each may be on their way at once.
  MessageParts(const MessageSum& sum, int slots, std::size_t largest);
  MessageParts(const MessageParts&) = delete;
  MessageParts& operator=(const MessageParts&) = delete;

  int me() const { return sum_.team.me; }
  int size() const { return sum_.team.size(); }
  Slice all() const { return {0, sum_.n}; }
  Slice slice(int member) const { return slice_of(sum_.n, sum_.codec.block(), member, size()); }
  /// Calls f(member) for all others, each rank beginning with its neighbour, so that not all
  /// senders meet at one rank first.
  template <class F>
  void each_other(F&& f) const {
    for (int step = 1; step < size(); ++step) f((me() + step) % size());
  }

  /// image = held.
  void encode(Slice part) const;
  /// held = image.
  void decode(Slice part) const;
  /// held = what a message of it is worth.
  void round(Slice part) const {
    encode(part);
    decode(part);
  }
  /// The part of the image.
  void send(Slice part, int to_member) const;
  void receive(Slice part, int from_member) const;
  /// Into a slot, to be added.
  void receive_addend(Slice part, int from_member, int slot = 0) const;
  /// Waits for all of these; see Messages.
  void finish(bool indirect = false) const { sum_.messages.finish(sum_.call, indirect); }
  /// held += the addend in the slot.
  void add(Slice part, int slot = 0) const;
  /// held = the sum, in the order of the team, of held and of all others' addends, which are in the
  /// slots of their numbers.
  void add_in_order(Slice part) const;

 private:
  int rank(int member) const { return sum_.team.members[static_cast<std::size_t>(member)]; }
  std::byte* held(Slice part) const;
  std::byte* image(Slice part) const;
  std::byte* slot(int index) const;

  const MessageSum& sum_;
  std::size_t slot_bytes_;
};

}  // namespace shardlm
