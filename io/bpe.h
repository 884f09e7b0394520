// Byte-pair merges on ids.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace shardlm {

/// "left right" becomes "result"; its rank is its place in the list.
struct MergeRule {
  std::int32_t left = 0;
  std::int32_t right = 0;
  std::int32_t result = 0;
};

/// Merges the bytes of a piece of text into tokens: while some neighbours are a pair of the rules,
/// all occurrences of the pair of lowest rank are merged, from left to right.
class Bpe {
 public:
  static constexpr std::int32_t kNoToken = -1;

  /// byte_ids: the token of each byte, kNoToken if it has none. No pair stands twice in `rules`,
  /// and no result equals a part of its rule (both refused where files are read).
  Bpe(const std::array<std::int32_t, 256>& byte_ids, std::vector<MergeRule> rules);

  /// Buffers of encode(), kept from piece to piece.
  class Scratch;

  /// Appends the ids of the piece to `ids`; a byte without token is kNoToken there.
  /// Time n log n for n bytes. A piece of 4 GiB or more is an Error(usage).
  void encode(std::string_view piece, Scratch& scratch, std::vector<std::int32_t>& ids) const;

 private:
  static constexpr std::uint32_t kNoRank = 0xFFFFFFFF;

  struct Slot {  // of an open-addressing hash table: one cache line fetched for most look-ups
    std::int32_t left = kNoToken;
    std::int32_t right = kNoToken;
    std::uint32_t rank = kNoRank;
  };

  std::size_t slot_of(std::int32_t left, std::int32_t right) const;
  std::uint32_t rank(std::int32_t left, std::int32_t right) const;
  void start(std::string_view piece, Scratch& scratch) const;
  void merge_at(std::uint32_t at, const MergeRule& rule, Scratch& scratch) const;

  std::array<std::int32_t, 256> byte_ids_;
  std::vector<MergeRule> rules_;  // by rank
  std::vector<Slot> slots_;       // a power of two, at most half of them used
};

/// Symbols are a doubly linked list over the places of the piece's bytes. Candidates are pairs that
/// may be merged, (rank << 32 | place of the left symbol), least first.
class Bpe::Scratch {
  friend class Bpe;
  struct Symbol {
    std::int32_t id;
    std::uint32_t previous, next;  // places; the first has kEnd before it, the last kEnd after it
  };
  static constexpr std::uint32_t kEnd = 0xFFFFFFFF;

  std::vector<Symbol> symbols_;
  std::vector<std::uint64_t> candidates_;  // a heap
  std::vector<std::uint64_t> made_;        // candidates that the pair being merged brought about
};

}  // namespace shardlm
