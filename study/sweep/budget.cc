#include "study/sweep/budget.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>

#include "study/statistics.h"

namespace shardlm {

BudgetFit fit_budget(const std::vector<LaunchRef>& order, const std::vector<double>& seconds,
                     double budget_s) {
  std::map<int, double> round_s;
  std::set<std::size_t> cells;
  for (const LaunchRef& ref : order) {
    round_s[ref.launch] += seconds.at(ref.cell);
    cells.insert(ref.cell);
  }
  BudgetFit fit;
  std::set<std::size_t> reached;
  bool full = false;
  const int first = order.empty() ? 0 : round_s.begin()->first;
  for (const LaunchRef& ref : order) {
    const bool opens = fit.kept.empty() || fit.kept.back().launch != ref.launch;
    if (!full && opens && ref.launch != first) {
      full = fit.kept_s + round_s[ref.launch] > budget_s;  // all of it or nothing
    }
    if (!full && ref.launch == first) full = fit.kept_s + seconds.at(ref.cell) > budget_s;
    if (full) {
      ++fit.dropped;
      continue;
    }
    fit.kept.push_back(ref);
    fit.kept_s += seconds.at(ref.cell);
    fit.rounds = ref.launch + 1;
    reached.insert(ref.cell);
  }
  fit.cells_left = cells.size() - reached.size();
  return fit;
}

std::string duration_text(double seconds) {
  if (seconds < 60) return fmt::format("{:.1f} s", seconds);
  const auto whole = static_cast<std::int64_t>(std::llround(seconds));
  if (whole < 3600) return fmt::format("{} min {:02} s", whole / 60, whole % 60);
  return fmt::format("{} h {:02} min", whole / 3600, whole % 3600 / 60);
}

std::vector<double> expected_seconds(const std::vector<Cell>& cells,
                                     const std::vector<std::vector<double>>& done_s) {
  std::vector<double> errors;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    for (const double s : done_s.at(i)) errors.push_back(s / cells[i].guess_s);
  }
  const double error = errors.empty() ? 1 : median(errors);
  std::vector<double> expected;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const std::vector<double>& done = done_s[i];
    const double sum = std::accumulate(done.begin(), done.end(), 0.0);
    expected.push_back(done.empty() ? cells[i].guess_s * error
                                    : sum / static_cast<double>(done.size()));
  }
  return expected;
}

}  // namespace shardlm
