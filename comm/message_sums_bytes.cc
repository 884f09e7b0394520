#include <bit>

#include "base/error.h"
#include "comm/message_sums.h"

namespace shardlm {
namespace {

using Bytes = std::uint64_t;

class SentBytes {
 public:
  SentBytes(const WireCodec& codec, std::size_t n, int member, int members)
      : codec_(codec), n_(n), me_(member), size_(members) {}

  Bytes of(Algorithm algorithm) const {
    switch (algorithm) {
      case Algorithm::direct:
        return static_cast<Bytes>(size_ - 1) * all();
      case Algorithm::star:
        return (me_ == 0 ? static_cast<Bytes>(size_ - 1) : 1) * all();
      case Algorithm::tree:
        return (children() + (me_ == 0 ? 0 : 1)) * all();
      case Algorithm::ring:  // all slices but its own, then all but its successor's
        return 2 * all_slices() - slices(me_, me_ + 1, size_) -
               slices((me_ + 1) % size_, (me_ + 1) % size_ + 1, size_);
      case Algorithm::recdbl:
      case Algorithm::rabenseifner:
        return doubling(algorithm);
      default:
        fail(ExitCode::bug, {.what = "sent_bytes_by",
                             .expected = "an algorithm by messages",
                             .found = std::string(name(algorithm))});
    }
  }

 private:
  Bytes all() const { return codec_.wire_bytes(n_); }
  Bytes all_slices() const { return slices(0, size_, size_); }
  // Slices [first, end) of `members` ones, as one message. Whole blocks: as many bytes as in
  // several.
  Bytes slices(int first, int end, int members) const {
    return codec_.wire_bytes(slice_of(n_, codec_.block(), end - 1, members).end -
                             slice_of(n_, codec_.block(), first, members).begin);
  }
  Bytes children() const {
    Bytes count = 0;
    for (int bit = 1; bit < size_ && (me_ & bit) == 0; bit *= 2) count += me_ + bit < size_ ? 1 : 0;
    return count;
  }
  // See message_sums_doubling.cc for who is in the core.
  Bytes doubling(Algorithm algorithm) const {
    const int core = static_cast<int>(std::bit_floor(static_cast<unsigned>(size_)));
    const int extra = size_ - core;
    const bool paired = me_ < 2 * extra;
    if (paired && me_ % 2 == 0) return all();  // its addend, before
    const int place = paired ? me_ / 2 : me_ - extra;
    Bytes sent = paired ? all() : 0;  // the sum, after
    for (int distance = 1; distance < core; distance *= 2) {
      if (algorithm == Algorithm::recdbl) {
        sent += all();
        continue;
      }
      // Halving sends the partner's slices, doubling sends its own.
      const int mine = place & ~(distance - 1), theirs = mine ^ distance;
      sent += slices(mine, mine + distance, core) + slices(theirs, theirs + distance, core);
    }
    return sent;
  }

  const WireCodec& codec_;
  std::size_t n_;
  int me_, size_;
};

}  // namespace

std::uint64_t sent_bytes_by(Algorithm algorithm, const WireCodec& codec, std::size_t n, int member,
                            int members) {
  if (members == 1) return 0;
  return SentBytes(codec, n, member, members).of(algorithm);
}

}  // namespace shardlm
