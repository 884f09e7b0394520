#include <fmt/format.h>

#include <algorithm>

#include "study/report/chart_xy.h"
#include "study/report/html.h"
#include "study/report/number_text.h"
#include "study/report/sections.h"
#include "study/statistics.h"

namespace shardlm::report {
namespace {

constexpr std::size_t kMostCurves = 6, kMostPoints = 300;

// The main story's decoding, else the first decoding tests.
Rows rows_of(const Facts& facts) {
  Rows rows;
  for (const Scaling& s : strong_scalings(facts)) {
    if (!s.base().decode) continue;
    for (const ScalingStep& step : s.steps) rows.push_back(step.row);
    break;
  }
  if (rows.empty()) {
    for (const BenchRow& row : facts.benches) {
      if (row.decode) rows.push_back(&row);
    }
  }
  std::erase_if(rows, [](const BenchRow* row) { return row->gaps_ms.size() < 2; });
  return rows;
}

// Places in the sorted gaps: evenly, and all of the slowest 40, since the tail is what is looked
// for.
std::vector<std::size_t> places_of(std::size_t n) {
  std::vector<std::size_t> places;
  const std::size_t step = std::max<std::size_t>(n / kMostPoints, 1);
  for (std::size_t i = 0; i < n; ++i) {
    if (i % step == 0 || i + 40 >= n) places.push_back(i);
  }
  return places;
}

Series curve(const BenchRow& row, const std::string& name, int colour, bool tail) {
  Series s{.name = name, .colour = colour, .line = Series::Line::steps};
  std::vector<double> gaps = row.gaps_ms;
  std::sort(gaps.begin(), gaps.end());
  const auto n = static_cast<double>(gaps.size());
  for (const std::size_t i : places_of(gaps.size())) {
    const auto at = static_cast<double>(i);
    s.points.push_back({.x = gaps[i], .y = tail ? (n - at) / n : (at + 1) / n});
  }
  return s;
}

std::string panel(const Rows& rows, const std::vector<std::string>& labels, bool tail) {
  XyChart chart{
      .id = tail ? "gaps-tail" : "gaps-ecdf",
      .title = tail ? "Share of gaps at least so long" : "Distribution of the gaps between tokens",
      .description = tail ? "Both axes logarithmic: the slow end."
                          : "Share of gaps up to a time; logarithmic times.",
      .x = {.title = "ms between tokens", .logarithmic = true},
      .y = {.title = tail ? "share of gaps at least so long" : "share of gaps up to",
            .logarithmic = tail}};
  for (std::size_t i = 0; i < rows.size(); ++i)
    chart.series.push_back(curve(*rows[i], labels[i], static_cast<int>(i), tail));
  if (tail) {
    chart.rules = {{0.05, "p95"}, {0.01, "p99"}};
  } else {
    chart.rules = {{0.5, "p50"}};
  }
  return xy_chart(chart);
}

std::optional<double> supported(const BenchRow& row, double q) {
  std::vector<double> gaps = row.gaps_ms;
  return supported_quantile(gaps, q);
}

std::string reading_of(const Rows& rows, const std::vector<std::string>& labels) {
  const BenchRow* worst = nullptr;
  double most = 0;
  std::string name;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto p50 = supported(*rows[i], 0.5), p99 = supported(*rows[i], 0.99);
    if (!p50 || !p99 || *p99 / *p50 <= most) continue;
    most = *p99 / *p50;
    worst = rows[i];
    name = labels[i];
  }
  if (worst == nullptr)
    return "There are too few gaps for a 99th percentile (2000 are needed): the curves show what "
           "there is.";
  std::string text = fmt::format(
      "The longest tail is that of {}: one token in a hundred takes {} times the median or longer.",
      escaped(name), number_text(most));
  if (worst->doubtful())
    text += " That cell is " + escaped(doubts(*worst)) + ", which alone makes tails.";
  return text;
}

}  // namespace

std::string tails_section(const Facts& facts) {
  Rows rows = rows_of(facts);
  if (rows.empty()) return {};
  const std::size_t all = rows.size();
  rows.resize(std::min(all, kMostCurves));
  const auto labels = row_labels(rows);
  Table table("Gaps between tokens",
              {"configuration", "gaps", "p50 ms", "p95 ms", "p99 ms", "largest ms", "doubts"});
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const BenchRow& row = *rows[i];
    table.row({labels[i], std::to_string(row.gaps_ms.size()), number_text(supported(row, 0.5)),
               number_text(supported(row, 0.95)), number_text(supported(row, 0.99)),
               number_text(*std::max_element(row.gaps_ms.begin(), row.gaps_ms.end())),
               doubts(row)});
  }
  Figure f{.id = "tails", .title = "Gaps between tokens", .reading = reading_of(rows, labels)};
  f.panels = {panel(rows, labels, false), panel(rows, labels, true)};
  f.caption =
      "Gaps of all launches together, as they came. A percentile is given where at least 20/(1 − "
      "q) gaps support it (40, 400 and 2000), else –.";
  if (all > rows.size()) f.caption += fmt::format(" The first {} of {} tests.", rows.size(), all);
  f.tables = table.html();
  return f.html();
}

}  // namespace shardlm::report
