// How the attention of a step is cut over threads. A unit of work is one run of keys for one tile
// of rows of one head of one sequence; units stand in the order sequence, head, tile, run, and a
// thread gets a stretch of them of about equal cost.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "backend/backend.h"
#include "backend/cpu/attention_kernel.h"

namespace shardlm {

/// A tile and those of its runs that one part works on.
struct PlannedTile {
  std::int64_t sequence = 0, head = 0;
  std::int64_t first_row = 0, rows = 0;  ///< of the sequence's rows in this step
  std::int64_t first_run = 0, end_run = 0, n_runs = 0;
  std::int64_t first_part = 0;  ///< the part that has the tile's run 0
  bool whole() const { return first_run == 0 && end_run == n_runs; }
};

class AttentionPlan {
 public:
  AttentionPlan(std::span<const SequenceRows> sequences, std::int64_t heads);

  std::int64_t cost() const { return cost_; }
  std::int64_t most_runs() const { return most_runs_; }
  /// All units are cut into so many parts from now on.
  void set_parts(std::int64_t parts) { parts_ = parts; }

  /// fn(PlannedTile) for everything in a part, in order.
  template <class Fn>
  void visit(std::int64_t part, const Fn& fn) const;

 private:
  static std::int64_t runs_of(std::int64_t tokens) {
    return (tokens + kRunTokens - 1) / kRunTokens;
  }
  /// Reading a key and a value, and the overhead of a row and a run, cost about as much as 4 rows'
  /// and 16 tokens' arithmetic.
  static std::int64_t unit_cost(std::int64_t rows, std::int64_t tokens, std::int64_t run) {
    return (rows + 4) * (std::min(tokens - run * kRunTokens, kRunTokens) + 16);
  }
  static std::int64_t tiles_of(const SequenceRows& s) {
    return (s.n_rows + kTileRows - 1) / kTileRows;
  }
  static PlannedTile tile_of(const SequenceRows& s, std::int64_t tile);
  static std::int64_t head_cost(const SequenceRows& s);
  std::int64_t cut(std::int64_t part) const { return cost_ * part / parts_; }
  std::int64_t part_of(std::int64_t at) const;
  PlannedTile stretch(PlannedTile tile, const SequenceRows& s, std::int64_t part,
                      std::int64_t* at) const;

  std::span<const SequenceRows> sequences_;
  std::int64_t heads_, cost_ = 0, most_runs_ = 0, parts_ = 1;
};

template <class Fn>
void AttentionPlan::visit(std::int64_t part, const Fn& fn) const {
  const std::int64_t begin = cut(part), end = cut(part + 1);
  std::int64_t next = 0;  // where the sequence after this one starts
  for (std::int64_t i = 0; i < std::ssize(sequences_) && next < end; ++i) {
    const SequenceRows& s = sequences_[static_cast<std::size_t>(i)];
    const std::int64_t of_head = head_cost(s), start = next;
    next += heads_ * of_head;
    if (next <= begin || of_head == 0) continue;
    std::int64_t head = std::max<std::int64_t>(begin - start, 0) / of_head;
    for (std::int64_t at = start + head * of_head; head < heads_ && at < end; ++head) {
      for (std::int64_t t = 0; t < tiles_of(s); ++t) {
        PlannedTile tile = stretch(tile_of(s, t), s, part, &at);
        if (tile.first_run == tile.end_run) continue;
        tile.sequence = i;
        tile.head = head;
        fn(tile);
      }
    }
  }
}

}  // namespace shardlm
