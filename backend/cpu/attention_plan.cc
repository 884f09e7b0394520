#include "backend/cpu/attention_plan.h"

#include <algorithm>

namespace shardlm {

AttentionPlan::AttentionPlan(std::span<const SequenceRows> sequences, std::int64_t heads)
    : sequences_(sequences), heads_(heads) {
  for (const SequenceRows& s : sequences) {
    if (s.n_rows == 0) continue;
    cost_ += heads * head_cost(s);
    most_runs_ = std::max(most_runs_, runs_of(s.start + s.n_rows));
  }
}

PlannedTile AttentionPlan::tile_of(const SequenceRows& s, std::int64_t tile) {
  const std::int64_t tiles = tiles_of(s);  // of about equal height
  PlannedTile found;
  found.first_row = s.n_rows * tile / tiles;
  found.rows = s.n_rows * (tile + 1) / tiles - found.first_row;
  found.n_runs = runs_of(s.start + found.first_row + found.rows);
  return found;
}

std::int64_t AttentionPlan::head_cost(const SequenceRows& s) {
  std::int64_t cost = 0;
  for (std::int64_t t = 0; t < tiles_of(s); ++t) {
    const PlannedTile tile = tile_of(s, t);
    const std::int64_t tokens = s.start + tile.first_row + tile.rows;
    cost += (tile.n_runs - 1) * unit_cost(tile.rows, tokens, 0) +
            unit_cost(tile.rows, tokens, tile.n_runs - 1);
  }
  return cost;
}

std::int64_t AttentionPlan::part_of(std::int64_t at) const {
  std::int64_t part = std::min(at * parts_ / cost_, parts_ - 1);
  while (cut(part + 1) <= at) ++part;
  return part;
}

/// The tile with those of its runs that start inside the part; *at moves behind all of its runs.
PlannedTile AttentionPlan::stretch(PlannedTile tile, const SequenceRows& s, std::int64_t part,
                                   std::int64_t* at) const {
  const std::int64_t begin = cut(part), end = cut(part + 1), start = *at;
  const std::int64_t tokens = s.start + tile.first_row + tile.rows;
  tile.first_run = tile.n_runs;
  tile.end_run = tile.n_runs;
  for (std::int64_t run = 0; run < tile.n_runs; ++run) {
    if (*at >= begin && tile.first_run == tile.n_runs) tile.first_run = run;
    if (*at >= end && tile.end_run == tile.n_runs) tile.end_run = run;
    *at += unit_cost(tile.rows, tokens, run);
  }
  if (tile.first_run < tile.end_run) tile.first_part = part_of(start);
  return tile;
}

}  // namespace shardlm
