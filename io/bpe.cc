#include "io/bpe.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <utility>

#include "base/error.h"

namespace shardlm {
namespace {

constexpr std::int32_t kMergedAway = -2;  // the symbol is part of the one before it

std::uint64_t candidate(std::uint32_t rank, std::uint32_t at) {
  return std::uint64_t{rank} << 32 | at;
}
std::uint32_t rank_of(std::uint64_t candidate) {
  return static_cast<std::uint32_t>(candidate >> 32);
}
std::uint32_t place_of(std::uint64_t candidate) { return static_cast<std::uint32_t>(candidate); }

void push(std::vector<std::uint64_t>& heap, std::uint64_t value) {
  heap.push_back(value);
  std::push_heap(heap.begin(), heap.end(), std::greater<>{});
}

std::uint64_t pop(std::vector<std::uint64_t>& heap) {
  std::pop_heap(heap.begin(), heap.end(), std::greater<>{});
  const std::uint64_t least = heap.back();
  heap.pop_back();
  return least;
}

}  // namespace

Bpe::Bpe(const std::array<std::int32_t, 256>& byte_ids, std::vector<MergeRule> rules)
    : byte_ids_(byte_ids), rules_(std::move(rules)), slots_(std::bit_ceil(2 * rules_.size() + 2)) {
  for (std::size_t i = 0; i < rules_.size(); ++i) {
    const MergeRule& rule = rules_[i];
    Slot& slot = slots_[slot_of(rule.left, rule.right)];
    check(slot.rank == kNoRank && rule.result != rule.left && rule.result != rule.right,
          "merge rules are distinct and make new tokens");
    slot = {rule.left, rule.right, static_cast<std::uint32_t>(i)};
  }
}

// The slot that holds the pair, or the free one where it would go (linear probing).
std::size_t Bpe::slot_of(std::int32_t left, std::int32_t right) const {
  const auto key =
      std::uint64_t{static_cast<std::uint32_t>(left)} << 32 | static_cast<std::uint32_t>(right);
  const std::size_t mask = slots_.size() - 1;
  std::size_t at = (key * 0x9E3779B97F4A7C15U >> 32) & mask;  // Fibonacci hashing
  while (slots_[at].rank != kNoRank && (slots_[at].left != left || slots_[at].right != right)) {
    at = (at + 1) & mask;
  }
  return at;
}

std::uint32_t Bpe::rank(std::int32_t left, std::int32_t right) const {
  return slots_[slot_of(left, right)].rank;
}

void Bpe::start(std::string_view piece, Scratch& scratch) const {
  auto& symbols = scratch.symbols_;
  symbols.resize(piece.size());
  for (std::uint32_t i = 0; i < symbols.size(); ++i) {
    symbols[i] = {byte_ids_[static_cast<unsigned char>(piece[i])], i - 1, i + 1};
  }
  symbols.back().next = Scratch::kEnd;  // the first has kEnd before it already: 0 - 1
  scratch.candidates_.clear();
  for (std::uint32_t i = 0; i + 1 < symbols.size(); ++i) {
    const std::uint32_t r = rank(symbols[i].id, symbols[i + 1].id);
    if (r != kNoRank) scratch.candidates_.push_back(candidate(r, i));
  }
  std::make_heap(scratch.candidates_.begin(), scratch.candidates_.end(), std::greater<>{});
}

// Merges the symbol at `at` with the next one, unless one of them has become another meanwhile.
void Bpe::merge_at(std::uint32_t at, const MergeRule& rule, Scratch& scratch) const {
  auto& symbols = scratch.symbols_;
  auto& left = symbols[at];
  if (left.id != rule.left || left.next == Scratch::kEnd) return;
  auto& right = symbols[left.next];
  if (right.id != rule.right) return;
  left.id = rule.result;
  left.next = right.next;
  right.id = kMergedAway;
  if (left.next != Scratch::kEnd) {
    symbols[left.next].previous = at;
    const std::uint32_t r = rank(left.id, symbols[left.next].id);
    if (r != kNoRank) scratch.made_.push_back(candidate(r, at));
  }
  if (left.previous != Scratch::kEnd) {
    const std::uint32_t r = rank(symbols[left.previous].id, left.id);
    if (r != kNoRank) scratch.made_.push_back(candidate(r, left.previous));
  }
}

void Bpe::encode(std::string_view piece, Scratch& scratch, std::vector<std::int32_t>& ids) const {
  if (piece.empty()) return;
  if (piece.size() >= Scratch::kEnd) {
    fail(ExitCode::usage, {.what = "a text without a break of 4 GiB or more cannot be tokenized"});
  }
  start(piece, scratch);
  auto& candidates = scratch.candidates_;
  while (!candidates.empty()) {
    const std::uint32_t r = rank_of(candidates.front());
    // Every occurrence of this pair goes before any pair that the merging makes, also before one of
    // lower rank (which trained rules never make, but hand-made ones may).
    while (!candidates.empty() && rank_of(candidates.front()) == r) {
      merge_at(place_of(pop(candidates)), rules_[r], scratch);
    }
    for (const std::uint64_t made : scratch.made_) push(candidates, made);
    scratch.made_.clear();
  }
  for (std::uint32_t at = 0; at != Scratch::kEnd; at = scratch.symbols_[at].next) {
    ids.push_back(scratch.symbols_[at].id);
  }
}

}  // namespace shardlm
