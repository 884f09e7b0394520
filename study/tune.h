// Which all-reduce is the quickest in this group of ranks, by trying them all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "comm/algorithm_table.h"
#include "comm/communicator.h"
#include "study/measuring.h"

namespace shardlm {

struct TuneLimits {
  std::vector<std::size_t> bytes;  ///< of messages, ascending, multiples of 4
  int least_calls = 100;           ///< of each algorithm and size
  int most_calls = 2000;
  double seconds = 0.3;  ///< for each size, all algorithms together, between these two
};

/// One algorithm at one size. Times are microseconds of the slowest rank of each call, which all
/// ranks begin together (after a barrier).
struct TuneSample {
  AllReduceChoice choice;
  std::size_t bytes = 0;
  double median_us = 0;
  double low_us = 0, high_us = 0;  ///< 95 % confidence interval of the median (order statistics)
  double p99_us = 0;               ///< negative: too few calls to say
  int calls = 0;
  std::uint64_t n_wrong = 0;  ///< elements of the first call's sum that were not exact, all ranks
};

/// A group's communicator whose all-reduces are all of one choice.
struct TuneCandidate {
  AllReduceChoice choice;
  std::unique_ptr<Communicator> comm;
};

/// All choices without rounding that the group can make, best guess first.
std::vector<AllReduceChoice> tune_choices(const GroupShape& shape);

/// Tries every candidate at every size, call by call in an order that is drawn anew each time and
/// the same on all ranks, so that what disturbs the machine disturbs all alike. Collective; the
/// samples are rank 0's (elsewhere: none). `progress` is told sizes done of all.
std::vector<TuneSample> tune(Communicator& control, Backend& backend,
                             std::span<const TuneCandidate> candidates, const TuneLimits& limits,
                             const std::function<void(std::size_t, std::size_t)>& progress);

/// The quickest choice of each size, as rules whose borders lie halfway (in the logarithm) between
/// sizes. A size keeps the choice of the size below it unless another one's confidence interval
/// lies wholly under that one's: so that noise does not make rules.
AlgorithmTable quickest(std::span<const TuneSample> samples);

}  // namespace shardlm
