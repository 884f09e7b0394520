#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "study/report/chart_rows.h"
#include "study/report/html.h"
#include "study/report/number_text.h"
#include "study/report/sections.h"

namespace shardlm::report {
namespace {

const std::vector<std::string> kParts = {"compute", "wait", "transfer", "other"};
const std::vector<std::string> kClasses = {"compute", "wait", "transfer", "other"};
constexpr std::size_t kMostBars = 12;

std::vector<double> parts_of(const StepTimes& t) {
  return {t.compute, t.wait, t.transfer, t.other};
}

// Rows with their times, the main story's if there is one.
struct Bars {
  Rows rows;
  std::vector<std::string> labels;
  std::size_t all = 0;
};

Bars bars_of(const Facts& facts, const std::vector<Scaling>& scalings, bool decode) {
  Bars bars;
  for (const Scaling& s : scalings) {
    if (s.base().decode != decode) continue;
    for (const ScalingStep& step : s.steps) bars.rows.push_back(step.row);
    break;
  }
  const bool story = !bars.rows.empty();
  if (!story) {
    for (const BenchRow& row : facts.benches) {
      if (row.decode == decode) bars.rows.push_back(&row);
    }
  }
  std::erase_if(bars.rows,
                [](const BenchRow* row) { return !row->step || row->step->total() <= 0; });
  bars.all = bars.rows.size();
  if (bars.rows.size() > kMostBars) bars.rows.resize(kMostBars);
  if (story) {
    for (const BenchRow* row : bars.rows) bars.labels.push_back(count_text(row->ranks, "rank"));
  } else {
    bars.labels = row_labels(bars.rows);
  }
  return bars;
}

std::string panel(const Bars& bars, const std::string& id, bool shares) {
  BarChart chart{
      .id = id + (shares ? "-shares" : "-times"),
      .title = shares ? "Shares of a step" : "Time of a step",
      .description = "Stacked bars of compute, wait, transfer and other, one a configuration.",
      .parts = kParts,
      .classes = kClasses,
      .bars = {},
      .unit = "ms",
      .shares = shares};
  for (std::size_t i = 0; i < bars.rows.size(); ++i) {
    const StepTimes& t = *bars.rows[i]->step;
    chart.bars.push_back({bars.labels[i], parts_of(t),
                          shares ? percent_text((t.wait + t.transfer) / t.total()) + " comm."
                                 : number_text(t.total()) + " ms"});
  }
  return bar_chart(chart);
}

std::string factor_table(const Bars& bars, const std::string& caption) {
  Table table(caption, {"configuration", "compute ms", "wait ms", "transfer ms", "other ms",
                        "total ms", "load balance", "serialisation", "transfer eff.",
                        "parallel eff.", "adds up within", "doubts"});
  for (std::size_t i = 0; i < bars.rows.size(); ++i) {
    const BenchRow& row = *bars.rows[i];
    const StepTimes& t = *row.step;
    table.row({bars.labels[i], number_text(t.compute), number_text(t.wait), number_text(t.transfer),
               number_text(t.other), number_text(t.total()), number_text(row.load_balance),
               number_text(row.serialisation), number_text(row.transfer_efficiency),
               number_text(row.parallel()),
               row.closing_error ? percent_text(*row.closing_error) : "–", doubts(row)});
  }
  return table.details();
}

// The one to speak of: the fastest, if possible of those without doubts.
const BenchRow* fastest(const Bars& bars) {
  const BenchRow* best = nullptr;
  for (const BenchRow* row : bars.rows) {
    if (best == nullptr || std::pair(!row->doubtful(), row->rate.middle) >
                               std::pair(!best->doubtful(), best->rate.middle))
      best = row;
  }
  return best;
}

std::string reading_of(const Bars& bars) {
  const BenchRow& row = *fastest(bars);
  const StepTimes& t = *row.step;
  std::string text = fmt::format(
      "On {} a step of {} ms is {} computation; {} goes on waiting for other ranks and {} on "
      "moving data.",
      count_text(row.ranks, "rank"), number_text(t.total()), percent_text(t.compute / t.total()),
      percent_text(t.wait / t.total()), percent_text(t.transfer / t.total()));
  if (t.wait > 2 * t.transfer && t.wait > 0.02 * t.total()) {
    text += " Waiting outweighs transfer: a faster link would help little, evener ranks would.";
  } else if (t.transfer > 2 * t.wait && t.transfer > 0.02 * t.total()) {
    text += " Transfer outweighs waiting: here the link and the algorithm matter.";
  }
  if (row.doubtful()) text += " (" + escaped(doubts(row)) + ": not a property of the method.)";
  return text;
}

std::string closing_phrase(const Bars& bars) {
  std::size_t open = 0, launches = 0;
  for (const BenchRow* row : bars.rows) {
    open += row->open;
    launches += row->rate.launches;
  }
  if (open == 0) return " The four parts add up to the measured time within 1 % in every launch.";
  return fmt::format(
      " <b>In {} of {} launches the parts do not add up to the measured time within 1 %.</b>", open,
      launches);
}

std::string figure(const Bars& bars, const std::string& id, const std::string& title) {
  if (bars.rows.empty()) return {};
  Figure f{.id = id, .title = title, .reading = reading_of(bars)};
  f.panels = {panel(bars, id, false), panel(bars, id, true)};
  f.caption =
      "Means over ranks and steps, of the launch whose time is in the middle. Wait: until the last "
      "rank has come to "
      "a sum; transfer: from then on." +
      closing_phrase(bars);
  if (bars.all > bars.rows.size())
    f.caption += fmt::format(" The first {} of {} rows.", bars.rows.size(), bars.all);
  f.tables = factor_table(bars, title);
  return f.html();
}

std::string rank_reading(const BenchRow& row) {
  const auto by_compute = [](const RankTimes& a, const RankTimes& b) {
    return a.ms.compute < b.ms.compute;
  };
  const auto [least, most] =
      std::minmax_element(row.rank_times.begin(), row.rank_times.end(), by_compute);
  const double more = least->ms.compute > 0 ? most->ms.compute / least->ms.compute - 1 : 0;
  if (more < 0.02)
    return fmt::format("The {} compute equally long, within {}.", count_text(row.ranks, "rank"),
                       percent_text(more));
  return fmt::format("Rank {} computes {} longer than rank {}, which waits for it: {} ms of {} ms.",
                     most->rank, percent_text(more), least->rank, number_text(least->ms.wait),
                     number_text(least->ms.total()));
}

std::string rank_figure(const BenchRow* row) {
  if (row == nullptr || row->rank_times.size() < 2) return {};
  BarChart chart{.id = "ranks-times",
                 .title = "Time of a step on each rank",
                 .description = "Stacked bars of compute, wait, transfer and other, one a rank.",
                 .parts = kParts,
                 .classes = kClasses,
                 .bars = {},
                 .unit = "ms"};
  Table table(
      "Ranks",
      {"rank", "host", "core", "compute ms", "wait ms", "transfer ms", "other ms", "total ms"}, 3);
  for (const RankTimes& r : row->rank_times) {
    if (chart.bars.size() < 32)
      chart.bars.push_back(
          {"rank " + std::to_string(r.rank), parts_of(r.ms), number_text(r.ms.total()) + " ms"});
    table.row({std::to_string(r.rank), r.host, r.core, number_text(r.ms.compute),
               number_text(r.ms.wait), number_text(r.ms.transfer), number_text(r.ms.other),
               number_text(r.ms.total())});
  }
  Figure f{.id = "ranks",
           .title = "Rank by rank, on " + count_text(row->ranks, "rank"),
           .reading = rank_reading(*row)};
  f.panels = {bar_chart(chart)};
  f.caption = escaped(row_phrase(*row)) + ", the launch in the middle.";
  if (row->rank_times.size() > chart.bars.size())
    f.caption += " The first 32 ranks are drawn; the table has all.";
  f.tables = table.details();
  return f.html();
}

}  // namespace

std::string time_section(const Facts& facts) {
  const auto scalings = strong_scalings(facts);
  const Bars decode = bars_of(facts, scalings, true), prefill = bars_of(facts, scalings, false);
  const BenchRow* ranks = fastest(decode.rows.empty() ? prefill : decode);
  return figure(decode, "time-decode", "A decoding step") + rank_figure(ranks) +
         figure(prefill, "time-prefill", "A prefill");
}

}  // namespace shardlm::report
