#include "comm/message_parts.h"
#include "comm/message_sums.h"

namespace shardlm {

// A binomial tree: member m's parent is m without its lowest bit; its children are m with one more
// bit below that.
void sum_tree(const MessageSum& sum) {
  if (sum.team.size() == 1) return;
  const MessageParts parts(sum, 1, sum.n);
  const int me = parts.me(), size = parts.size();
  int bit = 1;  // up to the lowest bit of `me`: this member's place in the tree
  for (; bit < size && (me & bit) == 0; bit <<= 1) {
    if (me + bit >= size) continue;
    parts.receive_addend(parts.all(), me + bit);
    parts.finish(bit > 1);
    parts.add(parts.all());
  }
  if (me == 0) {
    parts.round(parts.all());
  } else {
    parts.encode(parts.all());
    parts.send(parts.all(), me - bit);
    parts.finish();
    parts.receive(parts.all(), me - bit);
    parts.finish(true);
    // decoded only after it is on its way down
  }
  for (bit >>= 1; bit > 0; bit >>= 1) {
    if (me + bit < size) parts.send(parts.all(), me + bit);
  }
  if (me != 0) parts.decode(parts.all());
  parts.finish();
}

}  // namespace shardlm
