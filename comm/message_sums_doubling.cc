// The algorithms whose partners double or halve their distance. They want a power of two of ranks:
// of the ranks beyond it, each adds to its neighbour's addend before, and gets the sum after.
#include <bit>

#include "comm/message_parts.h"
#include "comm/message_sums.h"

namespace shardlm {
namespace {

// The first 2 * extra members are pairs, of which the odd one takes part in the core.
class Core {
 public:
  explicit Core(const MessageParts& parts)
      : parts_(parts),
        size_(static_cast<int>(std::bit_floor(static_cast<unsigned>(parts.size())))),
        extra_(parts.size() - size_) {}

  int size() const { return size_; }
  int extra() const { return extra_; }
  bool has_me() const { return parts_.me() >= 2 * extra_ || parts_.me() % 2 == 1; }
  int me() const { return parts_.me() < 2 * extra_ ? parts_.me() / 2 : parts_.me() - extra_; }
  int member(int place) const { return place < extra_ ? 2 * place + 1 : place + extra_; }

  void before() const {
    if (parts_.me() >= 2 * extra_) return;
    if (has_me()) {
      parts_.receive_addend(parts_.all(), parts_.me() - 1);
      parts_.finish();
      parts_.add(parts_.all());
    } else {
      parts_.encode(parts_.all());
      parts_.send(parts_.all(), parts_.me() + 1);
      parts_.finish();
    }
  }
  // The image of the core's sum.
  void after() const {
    if (parts_.me() >= 2 * extra_) return;
    if (has_me()) {
      parts_.send(parts_.all(), parts_.me() - 1);
      parts_.finish();
    } else {
      parts_.receive(parts_.all(), parts_.me() + 1);
      parts_.finish(true);
      parts_.decode(parts_.all());
    }
  }

 private:
  const MessageParts& parts_;
  int size_;
  int extra_;
};

// Both partners have sums of their halves of a group, of equal bits within a half.
void double_up(const MessageParts& parts, const Core& core) {
  for (int distance = 1; distance < core.size(); distance *= 2) {
    const int partner = core.member(core.me() ^ distance);
    parts.receive_addend(parts.all(), partner);
    parts.encode(parts.all());
    parts.send(parts.all(), partner);
    parts.finish(distance > 1 || core.extra() > 0);
    parts.decode(parts.all());
    parts.add(parts.all());
  }
}

// Slices [first, end) of as many as the core has members.
struct Window {
  int first = 0, end = 0;
};

class Halving {
 public:
  Halving(const MessageSum& sum, const MessageParts& parts, const Core& core)
      : sum_(sum), parts_(parts), core_(core) {}

  // Afterwards slice me() is summed here.
  void halve() const {
    Window window{0, core_.size()};
    for (int distance = core_.size() / 2; distance > 0; distance /= 2) {
      const Window mine = half(window, distance, core_.me());
      const Window theirs = half(window, distance, core_.me() ^ distance);
      const int partner = core_.member(core_.me() ^ distance);
      parts_.receive_addend(elements(mine), partner);
      parts_.encode(elements(theirs));
      parts_.send(elements(theirs), partner);
      parts_.finish(distance < core_.size() / 2 || core_.extra() > 0);
      parts_.add(elements(mine));
      window = mine;
    }
  }

  // The inverse: all slices' images come to all.
  void grow() const {
    parts_.round(elements({core_.me(), core_.me() + 1}));
    for (int distance = 1; distance < core_.size(); distance *= 2) {
      const int mine = core_.me() & ~(distance - 1), theirs = mine ^ distance;
      const int partner = core_.member(core_.me() ^ distance);
      const Slice in = elements({theirs, theirs + distance});
      parts_.receive(in, partner);
      parts_.send(elements({mine, mine + distance}), partner);
      parts_.finish(true);
      parts_.decode(in);
    }
  }

 private:
  // The half of the window that a member keeps: the upper one if it has the bit of the distance.
  static Window half(Window window, int distance, int place) {
    const int middle = window.first + distance;
    return (place & distance) != 0 ? Window{middle, window.end} : Window{window.first, middle};
  }
  Slice elements(Window window) const {
    const std::size_t block = sum_.codec.block();
    return {slice_of(sum_.n, block, window.first, core_.size()).begin,
            slice_of(sum_.n, block, window.end - 1, core_.size()).end};
  }

  const MessageSum& sum_;
  const MessageParts& parts_;
  const Core& core_;
};

}  // namespace

void sum_recdbl(const MessageSum& sum) {
  if (sum.team.size() == 1) return;
  const MessageParts parts(sum, 1, sum.n);
  const Core core(parts);
  core.before();
  if (core.has_me()) {
    double_up(parts, core);
    if (core.extra() > 0) parts.round(parts.all());  // as those beyond the core get it
  }
  core.after();
}

void sum_rabenseifner(const MessageSum& sum) {
  if (sum.team.size() == 1) return;
  const MessageParts parts(sum, 1, sum.n);
  const Core core(parts);
  core.before();
  if (core.has_me()) {
    const Halving halving(sum, parts, core);
    halving.halve();
    halving.grow();
  }
  core.after();
}

}  // namespace shardlm
