#include "comm/message_parts.h"
#include "comm/message_sums.h"

namespace shardlm {
namespace {

// Member `behind` places before this one.
int before(const MessageParts& parts, int behind) {
  const int size = parts.size();
  return ((parts.me() - behind) % size + size) % size;
}

// The largest slice is at most one block larger than an equal share.
std::size_t largest_slice(const MessageSum& sum) {
  const auto members = static_cast<std::size_t>(sum.team.size());
  const std::size_t block = sum.codec.block();
  const std::size_t blocks = (sum.n + block - 1) / block;
  return (blocks + members - 1) / members * block;
}

}  // namespace

// A slice starts at the member behind its owner and is summed on its way round to the owner.
void reduce_scatter_ring(const MessageSum& sum) {
  if (sum.team.size() == 1) return;
  const MessageParts parts(sum, 1, largest_slice(sum));
  const int next = before(parts, -1), previous = before(parts, 1);
  for (int step = 0; step < parts.size() - 1; ++step) {
    const Slice out = parts.slice(before(parts, step + 1));
    const Slice in = parts.slice(before(parts, step + 2));
    parts.receive_addend(in, previous);
    parts.encode(out);
    parts.send(out, next);
    parts.finish(step > 0);
    parts.add(in);
  }
}

void all_gather_ring(const MessageSum& sum) {
  if (sum.team.size() == 1) return;
  const MessageParts parts(sum, 0, 0);
  const int next = before(parts, -1), previous = before(parts, 1);
  parts.round(parts.slice(parts.me()));
  for (int step = 0; step < parts.size() - 1; ++step) {
    const Slice in = parts.slice(before(parts, step + 1));
    parts.receive(in, previous);
    parts.send(parts.slice(before(parts, step)), next);
    parts.finish(step > 0);
    parts.decode(in);
  }
}

void sum_ring(const MessageSum& sum) {
  reduce_scatter_ring(sum);
  all_gather_ring(sum);
}

}  // namespace shardlm
