// All-reduce by messages: one function an algorithm, each for any number of ranks and elements.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "comm/algorithm.h"
#include "comm/messages.h"
#include "comm/wire_codec.h"

namespace shardlm {

/// Ranks of a group that take part in a collective, by their numbers in Messages, in the order that
/// counts as theirs here. The calling rank is members[me].
struct Team {
  std::span<const int> members;
  int me = 0;
  int size() const { return static_cast<int>(members.size()); }
};

/// Buffers of the algorithms: they only grow, so a decode step allocates nothing once warm. They
/// must outlive a call that failed.
struct MessageScratch {
  std::vector<std::byte> image;     ///< the elements as messages, where those are not plain
  std::vector<std::byte> received;  ///< addends of others
};

/// What an algorithm works on: `n` held elements, overwritten by their sum over the team, which has
/// equal bits on all its ranks (those of NaNs excepted): also where the wire rounds, since what a
/// rank keeps of its own is then rounded as what it sends. A team of one is left as it is.
struct MessageSum {
  Messages& messages;
  const Team& team;
  const Call& call;
  const WireCodec& codec;
  MessageScratch& scratch;
  std::byte* held;
  std::size_t n;
};

/// direct and star sum in the order of the team.
void sum_direct(const MessageSum& sum);
void sum_recdbl(const MessageSum& sum);
void sum_rabenseifner(const MessageSum& sum);
void sum_ring(const MessageSum& sum);
void sum_star(const MessageSum& sum);
void sum_tree(const MessageSum& sum);
/// That of an algorithm by messages (direct … tree).
void sum_by(Algorithm algorithm, const MessageSum& sum);

/// The first half of sum_direct, for a caller that sums by itself: afterwards member r's elements
/// stand at received[r * codec.wire_bytes(n)], this member's own where they were. Plain codecs.
void exchange_addends(const MessageSum& sum);

/// The slice of n elements that member r owns, in whole blocks of the codec, slices as equal as
/// that allows.
struct Slice {
  std::size_t begin = 0, end = 0;
  std::size_t size() const { return end - begin; }
};
Slice slice_of(std::size_t n, std::size_t block, int member, int members);

/// The two halves of an all-reduce, direct (1 round each): afterwards this rank's slice holds the
/// sum in rank order; and the inverse, which brings every member's slice to all.
void reduce_scatter_direct(const MessageSum& sum);
void all_gather_direct(const MessageSum& sum);
/// The same around a ring (P - 1 rounds each).
void reduce_scatter_ring(const MessageSum& sum);
void all_gather_ring(const MessageSum& sum);

/// Bytes that a member sends in an all-reduce of n elements: what Messages::sent_bytes() counts,
/// for the report to compare. With w the bytes of all n, and where P is a power of two and slices
/// are equal, w (P-1) for direct, w log2 P for recdbl, 2 w (P-1)/P for ring and rabenseifner; at
/// other P the last two of recdbl and rabenseifner pay for the ranks beyond a power of two.
std::uint64_t sent_bytes_by(Algorithm algorithm, const WireCodec& codec, std::size_t n, int member,
                            int members);

}  // namespace shardlm
