// What of a study fits into its minutes: launches are dropped before cells are.
#pragma once

#include <string>
#include <vector>

#include "study/sweep/order.h"

namespace shardlm {

struct BudgetFit {
  std::vector<LaunchRef> kept;  ///< in the order given
  double kept_s = 0;
  int rounds = 0;              ///< launches that every cell that is kept has
  std::size_t cells_left = 0;  ///< that have no launch at all
  std::size_t dropped = 0;     ///< launches
};

/// Keeps whole rounds while they fit; of the first round, if not even that fits, what fits from its
/// start. `seconds[i]`: of one launch of cell i.
BudgetFit fit_budget(const std::vector<LaunchRef>& order, const std::vector<double>& seconds,
                     double budget_s);

/// "12.3 s", "4 min 05 s", "2 h 10 min".
std::string duration_text(double seconds);

/// Seconds of one launch of each cell, from what the finished ones of it took (`done_s[i]`: their
/// wall times), else from its guess times how wrong the guesses of the others were.
std::vector<double> expected_seconds(const std::vector<Cell>& cells,
                                     const std::vector<std::vector<double>>& done_s);

}  // namespace shardlm
