#include <fmt/format.h>

#include <algorithm>

#include "study/report/chart_xy.h"
#include "study/report/html.h"
#include "study/report/number_text.h"
#include "study/report/sections.h"

namespace shardlm::report {
namespace {

constexpr std::size_t kMostCurves = 6;

/// What grows along the axis.
struct Sweep {
  std::string name;                      ///< of the setting: "batch"
  std::string axis;                      ///< "sequences at once"
  double (*value)(const BenchRow& row);  ///< its number
  std::string id, title, time_title;
  bool decode = true;
};

// Groups with two values or more, by value.
std::vector<Group> groups_of(const Facts& facts, const Sweep& sweep) {
  std::vector<Group> all;
  for (Group group : group_rows(facts.benches, {sweep.name})) {
    if (group.rows.front()->decode != sweep.decode || !tells_speed(*group.rows.front())) continue;
    std::stable_sort(group.rows.begin(), group.rows.end(),
                     [&](auto* a, auto* b) { return sweep.value(*a) < sweep.value(*b); });
    group.rows.erase(
        std::unique(group.rows.begin(), group.rows.end(),
                    [&](auto* a, auto* b) { return sweep.value(*a) == sweep.value(*b); }),
        group.rows.end());
    if (group.rows.size() > 1) all.push_back(std::move(group));
  }
  std::stable_sort(all.begin(), all.end(), [](const Group& a, const Group& b) {
    return a.rows.front()->ranks < b.rows.front()->ranks;
  });
  return all;
}

std::string panel(const std::vector<Group>& groups, const Sweep& sweep, bool speed) {
  std::vector<double> values;
  for (const Group& g : groups) {
    for (const BenchRow* row : g.rows) values.push_back(sweep.value(*row));
  }
  std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end()), values.end());
  XyChart chart{
      .id = sweep.id + (speed ? "-speed" : "-time"),
      .title = sweep.title + (speed ? ": tokens per second" : ": time"),
      .description = "A line a configuration, the horizontal axis logarithmic.",
      .x = {.title = sweep.axis, .logarithmic = true, .ticks = value_ticks(values)},
      .y = {
          .title = speed ? "tokens/s" : sweep.time_title, .logarithmic = true, .zero_below = 2.5}};
  const auto labels = group_labels(groups);
  for (std::size_t i = 0; i < groups.size(); ++i) {
    Series series{.name = labels[i] == "all" ? "measured" : labels[i],
                  .colour = static_cast<int>(i)};
    for (const BenchRow* row : groups[i].rows) {
      const Summary& y = speed ? row->rate : row->time_ms;
      series.points.push_back(
          {.x = sweep.value(*row),
           .y = y.middle,
           .low = y.low,
           .high = y.high,
           .tip = fmt::format("{}, {} {}: {} {} ({}; n = {})", labels[i], sweep.axis,
                              number_text(sweep.value(*row), 6), number_text(y.middle),
                              speed ? "tokens/s" : "ms", range_text(y), y.launches),
           .hollow = row->doubtful()});
    }
    chart.series.push_back(std::move(series));
  }
  return xy_chart(chart);
}

std::string reading_of(const Group& group, const Sweep& sweep) {
  const BenchRow &first = *group.rows.front(), &last = *group.rows.back();
  std::string text = fmt::format(
      "On {}, going from {} {} to {} multiplies the tokens a second by <b>{}</b> and the time {} "
      "by {}.",
      count_text(last.ranks, "rank"), number_text(sweep.value(first), 6), sweep.axis,
      number_text(sweep.value(last), 6), number_text(last.rate.middle / first.rate.middle),
      sweep.decode ? "of a step" : "to the first token",
      number_text(last.time_ms.middle / first.time_ms.middle));
  if (compare(last.rate, first.rate) == Verdict::no_difference)
    text += " The spreads of the speeds overlap: no difference can be claimed.";
  if (last.doubtful()) text += " The last is " + escaped(doubts(last)) + ".";
  return text;
}

std::string figure(const Facts& facts, const Sweep& sweep) {
  std::vector<Group> groups = groups_of(facts, sweep);
  if (groups.empty()) return {};
  Table table(sweep.title,
              {"configuration", sweep.axis, "ranks", "n", "tokens/s", "low…high", "ms", "doubts"});
  const auto labels = group_labels(groups);
  for (std::size_t i = 0; i < groups.size(); ++i) {
    for (const BenchRow* row : groups[i].rows)
      table.row({labels[i], number_text(sweep.value(*row), 6), std::to_string(row->ranks),
                 std::to_string(row->rate.launches), number_text(row->rate.middle),
                 range_text(row->rate), number_text(row->time_ms.middle), doubts(*row)});
  }
  const std::size_t all = groups.size();
  groups.resize(std::min(all, kMostCurves));
  Rows rows;
  for (const Group& g : groups) rows.insert(rows.end(), g.rows.begin(), g.rows.end());
  Figure f{.id = sweep.id, .title = sweep.title, .reading = reading_of(groups.back(), sweep)};
  f.panels = {panel(groups, sweep, true), panel(groups, sweep, false)};
  f.caption = launches_phrase(rows) + hollow_phrase(rows);
  if (all > kMostCurves)
    f.caption += fmt::format(" {} of {} curves are drawn; the table has all.", kMostCurves, all);
  f.tables = table.details();
  return f.html();
}

}  // namespace

std::string sweep_section(const Facts& facts) {
  const auto batch = [](const BenchRow& row) { return row.batch; };
  const auto tokens = [](const BenchRow& row) { return row.tokens; };
  return figure(facts, {"batch", "sequences at once", batch, "batch",
                        "Decoding more sequences at once", "ms a step", true}) +
         figure(facts, {"batch", "sequences at once", batch, "batch-prefill",
                        "Prefill of more sequences at once", "ms to the first token", false}) +
         figure(facts, {"tokens", "prompt tokens", tokens, "prompt", "Longer prompts",
                        "ms to the first token", false});
}

}  // namespace shardlm::report
