// In which order the launches of a study run.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "study/sweep/cell.h"

namespace shardlm {

/// One job: launch `launch` (from 0) of the cell at `cell`.
struct LaunchRef {
  std::size_t cell = 0;
  int launch = 0;
  bool operator==(const LaunchRef&) const = default;
};

/// 0 … n - 1 in an order that follows from seed and stream alone (Fisher and Yates' shuffle with
/// Philox; the same on every machine).
std::vector<std::size_t> shuffled(std::size_t n, std::uint64_t seed, std::uint32_t stream);

/// Round after round: the first launches of all cells come before the second ones, so that a study
/// that ends early is as balanced as it can be. Each round has an order of its own, drawn from the
/// seed, or with `random` false the order of the cells. Calibrations run once, before all else;
/// with `one_rank_first` the first launches on one rank come next, since predictions are made of
/// them. Skipped cells are left out.
std::vector<LaunchRef> launch_order(const std::vector<Cell>& cells, const RepeatSpec& repeat,
                                    bool one_rank_first);

}  // namespace shardlm
