// What the all-reduce benchmark times, and how: contestants sum the same addends, one after another
// in random order, each from a common start of all ranks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "comm/all_reducer.h"

namespace shardlm {

/// One way to sum float32 addends over the ranks.
struct Contestant {
  std::string name;
  /// Untimed: the addend is made, in memory of the contestant's choice.
  std::function<std::span<float>(std::size_t n)> addend;
  /// Timed: sum[i] = the sum over ranks of addend()[i].
  std::function<void(std::span<float> addend, std::span<float> sum)> all_reduce;
};

/// A reducer and a plain summing pass over what it returns. Private memory holds the addend or, if
/// `in_place`, the memory that the reducer offers where it offers any.
Contestant reducer_contestant(std::string name, std::shared_ptr<AllReducer> reducer,
                              std::uint64_t& calls, bool in_place = false);

/// Brings all ranks to a common start.
class StartLine {
 public:
  virtual ~StartLine() = default;
  virtual void wait() = 0;
};

struct ContestOptions {
  int repetitions = 2000;
  std::size_t walk_bytes = 0;  ///< read between two samples, as a step reads weights
  std::uint64_t seed = 1;
};

/// A contestant's times at one size on this rank, in ns, and how many of its sums were wrong.
struct Samples {
  std::vector<double> ns;
  std::uint64_t wrong = 0;
};

/// One list of samples a contestant.
std::vector<Samples> run_contest(std::span<const Contestant> contestants, std::size_t n, int rank,
                                 int ranks, StartLine& start, const ContestOptions& options);

/// Of times in any order (which they lose).
struct Summary {
  double least = 0, median = 0, low = 0, high = 0, p99 = 0;  ///< low, high: 95 % CI of the median
  std::size_t count = 0;
};
Summary summarise(std::vector<double> times);

}  // namespace shardlm
