#include "comm/message_parts.h"

#include "base/error.h"

namespace shardlm {
namespace {

void grow(std::vector<std::byte>& buffer, std::size_t bytes) {
  if (buffer.size() < bytes) buffer.resize(bytes);
}

}  // namespace

Slice slice_of(std::size_t n, std::size_t block, int member, int members) {
  const std::size_t blocks = (n + block - 1) / block;
  const auto bound = [&](int m) {
    const auto first =
        blocks * static_cast<std::size_t>(m) / static_cast<std::size_t>(members) * block;
    return first < n ? first : n;
  };
  return {bound(member), bound(member + 1)};
}

MessageParts::MessageParts(const MessageSum& sum, int slots, std::size_t largest)
    : sum_(sum), slot_bytes_(sum.codec.wire_bytes(largest)) {
  if (!sum.codec.plain()) grow(sum.scratch.image, sum.codec.wire_bytes(sum.n));
  grow(sum.scratch.received, slot_bytes_ * static_cast<std::size_t>(slots));
}

std::byte* MessageParts::held(Slice part) const {
  return sum_.held + part.begin * held_bytes(sum_.codec.held());
}

std::byte* MessageParts::image(Slice part) const {
  if (sum_.codec.plain()) return held(part);
  return sum_.scratch.image.data() + sum_.codec.wire_bytes(part.begin);
}

std::byte* MessageParts::slot(int index) const {
  return sum_.scratch.received.data() + slot_bytes_ * static_cast<std::size_t>(index);
}

void MessageParts::encode(Slice part) const {
  if (!sum_.codec.plain()) sum_.codec.encode(held(part), part.size(), image(part));
}

void MessageParts::decode(Slice part) const {
  if (!sum_.codec.plain()) sum_.codec.decode(image(part), part.size(), held(part));
}

void MessageParts::send(Slice part, int to_member) const {
  sum_.messages.send(sum_.call, {image(part), sum_.codec.wire_bytes(part.size())}, rank(to_member));
}

void MessageParts::receive(Slice part, int from_member) const {
  sum_.messages.receive({image(part), sum_.codec.wire_bytes(part.size())}, rank(from_member));
}

void MessageParts::receive_addend(Slice part, int from_member, int index) const {
  sum_.messages.receive({slot(index), sum_.codec.wire_bytes(part.size())}, rank(from_member));
}

void MessageParts::add(Slice part, int index) const {
  sum_.codec.add(slot(index), part.size(), held(part));
}

void MessageParts::add_in_order(Slice part) const {
  const WireCodec& codec = sum_.codec;
  if (!codec.plain()) {  // own addend: from its image, rounded like the others
    encode(part);
    codec.decode(me() == 0 ? image(part) : slot(0), part.size(), held(part));
    for (int r = 1; r < size(); ++r) {
      codec.add(r == me() ? image(part) : slot(r), part.size(), held(part));
    }
    return;
  }
  // Those before this member are summed where the first of them stands; a + b has the bits of b +
  // a.
  for (int r = 1; r < me(); ++r) codec.add(slot(r), part.size(), slot(0));
  if (me() > 0) add(part, 0);
  for (int r = me() + 1; r < size(); ++r) add(part, r);
}

}  // namespace shardlm
