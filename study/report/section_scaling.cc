#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "study/report/chart_xy.h"
#include "study/report/html.h"
#include "study/report/number_text.h"
#include "study/report/sections.h"

namespace shardlm::report {
namespace {

constexpr std::size_t kMostCurves = 5;

std::vector<std::string> labels_of(const std::vector<Scaling>& scalings) {
  std::vector<Group> groups;
  for (const Scaling& s : scalings) groups.push_back(s.group);
  return group_labels(groups);
}

std::vector<double> rank_counts(const std::vector<Scaling>& scalings) {
  std::vector<double> ranks;
  for (const Scaling& s : scalings) {
    for (const ScalingStep& step : s.steps) ranks.push_back(step.row->ranks);
  }
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  return ranks;
}

// Where the second node begins, if rows say so.
std::optional<Rule> node_boundary(const Scaling& s) {
  double one = 0, more = 0;
  int nodes = 0;
  for (const ScalingStep& step : s.steps) {
    if (step.row->nodes == 1) one = step.row->ranks;
    if (step.row->nodes > 1 && more == 0) {
      more = step.row->ranks;
      nodes = step.row->nodes;
    }
  }
  if (more <= one || one == 0) return std::nullopt;
  return Rule{std::sqrt(one * more), fmt::format("{} nodes →", nodes), true};
}

Point point_of(const ScalingStep& step, const Summary& y, const std::string& unit) {
  const std::string doubt = doubts(*step.row);
  return {.x = static_cast<double>(step.row->ranks),
          .y = y.middle,
          .low = y.low,
          .high = y.high,
          .tip = fmt::format("{}: {} {} ({}; n = {}){}", count_text(step.row->ranks, "rank"),
                             number_text(y.middle), unit, range_text(y), y.launches,
                             doubt.empty() ? "" : "; " + doubt),
          .hollow = step.row->doubtful()};
}

// The most that the memory of these ranks can feed: every step reads the weights once.
Series read_bound(const Scaling& s) {
  Series bound{.name = "memory read limit", .colour = 9, .line = Series::Line::dashed};
  for (const ScalingStep& step : s.steps) {
    const BenchRow& row = *step.row;
    if (!row.decode || !row.read_gb_per_s || !row.weight_bytes) continue;
    bound.points.push_back({.x = static_cast<double>(row.ranks),
                            .y = *row.read_gb_per_s * 1e9 / *row.weight_bytes * row.batch});
  }
  return bound;
}

std::string speed_panel(const std::vector<Scaling>& scalings, const std::string& id) {
  const std::vector<double> ranks = rank_counts(scalings);
  XyChart chart{.id = id + "-speed",
                .title = "Speed by number of ranks",
                .description = "Tokens per second against ranks, with the ideal line.",
                .x = {.title = "ranks", .logarithmic = true, .ticks = value_ticks(ranks)},
                .y = {.title = "tokens/s", .logarithmic = true, .zero_below = 2.5}};
  const auto labels = labels_of(scalings);
  for (std::size_t i = 0; i < scalings.size(); ++i) {
    const Scaling& s = scalings[i];
    Series series{.name = labels[i] == "all" ? "measured" : labels[i],
                  .colour = static_cast<int>(i)};
    Series ideal{.name = i == 0 ? "ideal" : "", .colour = 8, .line = Series::Line::dashed};
    for (const ScalingStep& step : s.steps) {
      series.points.push_back(point_of(step, step.row->rate, "tokens/s"));
      const double growth = static_cast<double>(step.row->ranks) / s.base().ranks;
      ideal.points.push_back(
          {.x = static_cast<double>(step.row->ranks), .y = s.base().rate.middle * growth});
    }
    chart.series.push_back(std::move(series));
    if (!s.weak) chart.series.push_back(std::move(ideal));
  }
  const Series bound = read_bound(scalings.front());
  if (bound.points.size() > 1 && !scalings.front().weak) chart.series.push_back(bound);
  if (const auto rule = node_boundary(scalings.front())) chart.rules.push_back(*rule);
  return xy_chart(chart);
}

std::string efficiency_panel(const std::vector<Scaling>& scalings, const std::string& id) {
  const std::vector<double> ranks = rank_counts(scalings);
  XyChart chart{.id = id + "-efficiency",
                .title = "Efficiency by number of ranks",
                .description = "Speed-up divided by the growth of ranks; 1 is ideal.",
                .x = {.title = "ranks", .logarithmic = true, .ticks = value_ticks(ranks)},
                .y = {.title = "efficiency", .most = 1.05}};
  const auto labels = labels_of(scalings);
  for (std::size_t i = 0; i < scalings.size(); ++i) {
    Series series{.name = labels[i] == "all" ? "measured" : labels[i],
                  .colour = static_cast<int>(i)};
    for (const ScalingStep& step : scalings[i].steps)
      series.points.push_back(point_of(step, step.efficiency, "of ideal"));
    chart.series.push_back(std::move(series));
  }
  chart.rules.push_back({.value = 1, .label = "ideal"});
  if (const auto rule = node_boundary(scalings.front())) chart.rules.push_back(*rule);
  return xy_chart(chart);
}

std::string efficiency_text(const ScalingStep& step) {
  return percent_text(step.efficiency.middle);
}

// "From 2 to 3 ranks the intervals overlap: no difference can be claimed."
std::string overlap_sentence(const Scaling& s) {
  std::vector<std::string> unclear, slower;
  for (std::size_t i = 1; i < s.steps.size(); ++i) {
    const BenchRow &a = *s.steps[i - 1].row, &b = *s.steps[i].row;
    const std::string pair = fmt::format("{} to {}", a.ranks, b.ranks);
    const Verdict verdict = compare(b.rate, a.rate);
    if (verdict == Verdict::no_difference || verdict == Verdict::unknown) unclear.push_back(pair);
    if (verdict == Verdict::lower) slower.push_back(pair);
  }
  std::string text;
  if (!slower.empty()) text += " It gets slower from " + list_text(slower) + " ranks.";
  if (!unclear.empty())
    text +=
        " From " + list_text(unclear) + " ranks the spreads overlap: no difference can be claimed.";
  return text;
}

std::string reading_of(const Scaling& s) {
  const ScalingStep& best = s.best();
  const BenchRow& base = s.base();
  std::string text;
  if (best.row == &base) {
    text = fmt::format("No rank count was faster than {}: {} tokens/s.",
                       count_text(base.ranks, "rank"), number_text(base.rate.middle));
  } else {
    text = fmt::format(
        "{} reach <b>{} tokens/s</b>, <b>{}</b> the {} tokens/s of {}: an efficiency of {}.",
        count_text(best.row->ranks, "rank"), number_text(best.row->rate.middle),
        times_text(best.speedup.middle), number_text(base.rate.middle),
        count_text(base.ranks, "rank"), efficiency_text(best));
  }
  text += overlap_sentence(s);
  if (base.ranks > 1)
    text +=
        fmt::format(" One rank was not measured; the base is {}.", count_text(base.ranks, "rank"));
  const std::string doubt = doubts(*best.row);
  if (!doubt.empty()) text += " The fastest cell is " + escaped(doubt) + ".";
  return text;
}

std::string weak_reading(const Scaling& s) {
  const ScalingStep& last = s.steps.back();
  return fmt::format(
      "With the model grown to {} times the weights over {}, a token takes {} ms where it took {} "
      "ms on {}: "
      "weak efficiency {}.",
      number_text(last.row->weight_bytes.value_or(0) / s.base().weight_bytes.value_or(1)),
      count_text(last.row->ranks, "rank"), number_text(last.row->time_ms.middle),
      number_text(s.base().time_ms.middle), count_text(s.base().ranks, "rank"),
      efficiency_text(last));
}

std::string table_of(const std::vector<Scaling>& scalings, const std::string& caption) {
  Table table(caption, {"curve", "ranks", "nodes", "n", "tokens/s", "low…high", "ms", "speed-up",
                        "of speed-up", "efficiency", "Karp–Flatt", "doubts"});
  const auto labels = labels_of(scalings);
  for (std::size_t i = 0; i < scalings.size(); ++i) {
    for (const ScalingStep& step : scalings[i].steps) {
      const BenchRow& row = *step.row;
      table.row({labels[i], std::to_string(row.ranks), std::to_string(row.nodes),
                 std::to_string(row.rate.launches), number_text(row.rate.middle),
                 range_text(row.rate), number_text(row.time_ms.middle),
                 number_text(step.speedup.middle), range_text(step.speedup), efficiency_text(step),
                 number_text(step.karp_flatt, 2), doubts(row)},
                row.doubtful() ? "doubt" : "");
    }
  }
  return table.details();
}

Rows rows_of(const std::vector<Scaling>& scalings) {
  Rows rows;
  for (const Scaling& s : scalings) {
    for (const ScalingStep& step : s.steps) rows.push_back(step.row);
  }
  return rows;
}

std::string figure(std::vector<Scaling> scalings, const std::string& id, const std::string& title) {
  if (scalings.empty()) return {};
  const std::string table = table_of(scalings, title);
  const std::size_t all = scalings.size();
  scalings.resize(std::min(all, kMostCurves), scalings.front());
  const Scaling& first = scalings.front();
  const Rows rows = rows_of(scalings);
  Figure f{
      .id = id, .title = title, .reading = first.weak ? weak_reading(first) : reading_of(first)};
  f.panels = {speed_panel(scalings, id), efficiency_panel(scalings, id)};
  f.caption = launches_phrase(rows) + hollow_phrase(rows) + " ";
  f.caption +=
      first.weak
          ? "Efficiency is the work a second (bytes of weights a token) per rank against the base."
          : fmt::format(
                "Speed-ups are against {} ms on {} ({}). Lines between rank counts only guide the "
                "eye.",
                number_text(first.base().time_ms.middle), count_text(first.base().ranks, "rank"),
                escaped(row_phrase(first.base())));
  if (all > kMostCurves)
    f.caption += fmt::format(" {} of {} curves are drawn; the table has all.", kMostCurves, all);
  f.tables = table;
  return f.html();
}

std::vector<Scaling> of_kind(const std::vector<Scaling>& all, bool decode) {
  std::vector<Scaling> some;
  for (const Scaling& s : all) {
    if (s.base().decode == decode) some.push_back(s);
  }
  return some;
}

}  // namespace

std::string scaling_section(const Facts& facts) {
  const auto strong = strong_scalings(facts), weak = weak_scalings(facts);
  return figure(of_kind(strong, true), "strong-decode", "Strong scaling of decoding") +
         figure(of_kind(strong, false), "strong-prefill", "Strong scaling of prefill") +
         figure(of_kind(weak, true), "weak-decode",
                "Weak scaling of decoding: the model grows with the ranks") +
         figure(of_kind(weak, false), "weak-prefill",
                "Weak scaling of prefill: the model grows with the ranks");
}

}  // namespace shardlm::report
