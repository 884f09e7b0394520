#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "study/report/chart_map.h"
#include "study/report/chart_xy.h"
#include "study/report/html.h"
#include "study/report/number_text.h"
#include "study/report/sections.h"

namespace shardlm::report {
namespace {

using CollRows = std::vector<const CollRow*>;

// All that is one picture: an operation, on so many ranks, over a link, in one mode.
struct Panel {
  std::string op, emulate, mode, buffers;
  int ranks = 1, nodes = 1;
  auto operator<=>(const Panel&) const = default;
};

std::map<Panel, CollRows> panels_of(const Facts& facts) {
  std::map<Panel, CollRows> panels;
  for (const CollRow& row : facts.colls)
    panels[{row.op, row.emulate, row.mode, row.buffers, row.ranks, row.nodes}].push_back(&row);
  return panels;
}

// Of the i-th algorithm: 8 and 9 are greys of what is not measured.
int colour_of(std::size_t i) { return static_cast<int>(i < 8 ? i : 10 + (i - 8) % 2); }

// Colours by name, so that an algorithm keeps its own in every picture.
std::map<std::string, int> colours_of(const Facts& facts) {
  std::map<std::string, int> colours;
  std::vector<std::string> order;
  for (const CollRow& row : facts.colls) {
    if (std::find(order.begin(), order.end(), row.algorithm) == order.end())
      order.push_back(row.algorithm);
  }
  for (const std::string& name : order) colours.emplace(name, colour_of(colours.size()));
  return colours;
}

std::string panel_text(const Panel& p, bool modes) {
  std::string text = count_text(p.ranks, "rank");
  if (p.nodes > 1) text += ", " + count_text(p.nodes, "node");
  if (p.op != "all_reduce" && !p.op.empty()) text = p.op + ", " + text;
  if (!p.emulate.empty()) text += ", emulated " + p.emulate;
  if (modes) text += ", " + p.mode + ", " + p.buffers + " buffers";
  return text;
}

/// At one size: the fastest, and whether it stands alone.
struct Winner {
  const CollRow* first = nullptr;
  const CollRow* second = nullptr;
  bool tied() const {
    if (second == nullptr) return false;
    return compare(first->us, second->us) != Verdict::lower;
  }
};

std::map<double, Winner> winners_of(const CollRows& rows) {
  std::map<double, Winner> winners;
  for (const CollRow* row : rows) {
    Winner& w = winners[row->bytes];
    if (w.first == nullptr || row->us.middle < w.first->us.middle) {
      w.second = w.first;
      w.first = row;
    } else if (w.second == nullptr || row->us.middle < w.second->us.middle) {
      w.second = row;
    }
  }
  return winners;
}

std::string latency_panel(const std::string& id, const std::string& title, const CollRows& rows,
                          const std::map<std::string, int>& colours) {
  std::map<std::string, CollRows> algorithms;
  double least = 1e300, most = 0;
  for (const CollRow* row : rows) {
    algorithms[row->algorithm].push_back(row);
    least = std::min(least, row->bytes);
    most = std::max(most, row->bytes);
  }
  XyChart chart{
      .id = id,
      .title = "Latency against message size, " + title,
      .description = "A line an algorithm, both axes logarithmic; dashed: the model.",
      .x = {.title = "message, bytes", .logarithmic = true, .ticks = byte_ticks(least, most)},
      .y = {.title = "µs a call", .logarithmic = true},
      .height = 300};
  for (auto& [name, points] : algorithms) {
    std::sort(points.begin(), points.end(), [](auto* a, auto* b) { return a->bytes < b->bytes; });
    const int colour = colours.at(name);
    Series measured{.name = "", .colour = colour};
    Series model{.name = "", .colour = colour, .line = Series::Line::dashed};
    for (const CollRow* row : points) {
      measured.points.push_back(
          {.x = row->bytes,
           .y = row->us.middle,
           .low = row->us.low,
           .high = row->us.high,
           .tip = fmt::format("{}, {}: {} µs ({}; n = {}), model {} µs", name,
                              bytes_text(row->bytes), number_text(row->us.middle),
                              range_text(row->us), row->us.launches, number_text(row->model_us)),
           .hollow = row->noisy + row->oversubscribed > 0});
      if (row->model_us) model.points.push_back({.x = row->bytes, .y = *row->model_us});
    }
    chart.series.push_back(std::move(measured));
    chart.series.push_back(std::move(model));
  }
  return paragraph("panel-title", escaped(title)) + xy_chart(chart);
}

std::string shared_legend(const std::map<std::string, int>& colours, bool models) {
  std::vector<Series> keys;
  std::vector<std::pair<int, std::string>> order;
  for (const auto& [name, colour] : colours) order.emplace_back(colour, name);
  std::sort(order.begin(), order.end());
  for (const auto& [colour, name] : order) keys.push_back({.name = name, .colour = colour});
  if (models) keys.push_back({.name = "model", .colour = 8, .line = Series::Line::dashed});
  return legend(keys);
}

std::string reading_of(const std::string& title, const CollRows& rows) {
  const auto winners = winners_of(rows);
  const Winner &small = winners.begin()->second, &large = winners.rbegin()->second;
  std::string text = fmt::format("On {}, {} is fastest at {} ({} µs)", escaped(title),
                                 escaped(small.first->algorithm), bytes_text(small.first->bytes),
                                 number_text(small.first->us.middle));
  if (small.tied() && small.second != nullptr)
    text += ", not apart from " + escaped(small.second->algorithm);
  if (winners.size() > 1) {
    text += fmt::format(", and {} at {} ({} µs)", escaped(large.first->algorithm),
                        bytes_text(large.first->bytes), number_text(large.first->us.middle));
    if (large.tied() && large.second != nullptr)
      text += ", not apart from " + escaped(large.second->algorithm);
  }
  return text + ".";
}

std::string winner_map(const std::map<Panel, CollRows>& panels,
                       const std::map<std::string, int>& colours) {
  std::set<double> sizes;
  for (const auto& [panel, rows] : panels) {
    for (const CollRow* row : rows) sizes.insert(row->bytes);
  }
  MapChart chart{
      .id = "winner-map",
      .title = "The fastest algorithm by message size and ranks",
      .description =
          "A grid: rows are sizes, columns rank counts; each field names the fastest algorithm.",
      .x_title = "ranks",
      .y_title = "bytes",
      .columns = {},
      .rows = {},
      .fields = {}};
  std::vector<std::map<double, Winner>> winners;
  for (const auto& [panel, rows] : panels) {
    chart.columns.push_back(
        panels.size() > 1 && panel.emulate.empty() && panel.nodes == 1
            ? std::to_string(panel.ranks)
            : fmt::format("{}{}{}", panel.ranks,
                          panel.nodes > 1 ? fmt::format("/{}n", panel.nodes) : "",
                          panel.emulate.empty() ? "" : "*"));
    winners.push_back(winners_of(rows));
  }
  for (const double bytes : sizes) {
    chart.rows.push_back(bytes_text(bytes));
    std::vector<Field> fields;
    for (const auto& column : winners) {
      const auto found = column.find(bytes);
      if (found == column.end()) {
        fields.emplace_back();
        continue;
      }
      const Winner& w = found->second;
      std::string tip =
          fmt::format("{}: {} µs", w.first->algorithm, number_text(w.first->us.middle));
      if (w.second != nullptr)
        tip +=
            fmt::format("; then {}: {} µs", w.second->algorithm, number_text(w.second->us.middle));
      fields.push_back({w.first->algorithm, colours.at(w.first->algorithm), w.tied(), tip});
    }
    chart.fields.push_back(std::move(fields));
  }
  return map_chart(chart);
}

std::string map_reading(const std::map<Panel, CollRows>& panels) {
  std::map<std::string, std::size_t> wins;
  std::size_t all = 0, tied = 0;
  for (const auto& [panel, rows] : panels) {
    for (const auto& [bytes, w] : winners_of(rows)) {
      ++wins[w.first->algorithm];
      ++all;
      tied += w.tied() ? 1 : 0;
    }
  }
  const auto most = std::max_element(wins.begin(), wins.end(),
                                     [](auto& a, auto& b) { return a.second < b.second; });
  return fmt::format("{} is fastest in {} of {} combinations of size and ranks; ",
                     escaped(most->first), most->second, all) +
         (tied == 0
              ? "nowhere does the runner-up's spread overlap."
              : fmt::format("in {} the runner-up's spread overlaps (≈), so either may be taken.",
                            tied));
}

std::string table_of(const CollRows& rows, const std::string& title) {
  Table table(title, {"algorithm", "bytes", "n", "calls", "p50 µs", "low…high", "model µs",
                      "model/measured", "wrong"});
  for (const CollRow* row : rows) {
    table.row({row->algorithm, bytes_text(row->bytes), std::to_string(row->us.launches),
               number_text(row->calls, 9), number_text(row->us.middle), range_text(row->us),
               number_text(row->model_us),
               row->model_us ? number_text(*row->model_us / row->us.middle, 2) : "–",
               row->wrong > 0 ? "YES" : "0"});
  }
  return table.details("Data table: " + title);
}

}  // namespace

std::string collectives_highlight(const Facts& facts) {
  return facts.colls.empty() ? std::string() : map_reading(panels_of(facts));
}

std::string collectives_section(const Facts& facts) {
  if (facts.colls.empty()) return {};
  const auto panels = panels_of(facts);
  const auto colours = colours_of(facts);
  const bool modes = [&] {
    std::set<std::pair<std::string, std::string>> kinds;
    for (const auto& [p, rows] : panels) kinds.emplace(p.mode, p.buffers);
    return kinds.size() > 1;
  }();
  const bool models = std::any_of(facts.colls.begin(), facts.colls.end(),
                                  [](const CollRow& r) { return r.model_us.has_value(); });
  Figure latency{.id = "latency", .title = "Latency against message size", .reading = {}};
  std::size_t least = 1000000, doubtful = 0;
  for (const auto& [panel, rows] : panels) {
    const std::string title = panel_text(panel, modes);
    latency.reading += reading_of(title, rows) + " ";
    latency.panels.push_back(
        latency_panel(fmt::format("latency-{}", latency.panels.size()), title, rows, colours));
    latency.tables += table_of(rows, title);
    for (const CollRow* row : rows) {
      least = std::min(least, row->us.launches);
      doubtful += row->noisy + row->oversubscribed > 0 ? 1 : 0;
    }
  }
  const Panel& first = panels.begin()->first;
  latency.legend = shared_legend(colours, models);
  latency.caption =
      fmt::format("Medians over n ≥ {} launches of the median call ({}, {} buffers). ", least,
                  escaped(first.mode), escaped(first.buffers)) +
      (least >= 6
           ? "Whiskers: 95 % interval over launches."
           : "Whiskers: least to largest of the launches, or the interval of a single one.") +
      (doubtful > 0 ? " Hollow points: noisy, or more ranks than cores." : "") +
      " A size is a continuous quantity, so points are joined.";
  Figure map{.id = "winners", .title = "Winner map", .reading = map_reading(panels)};
  map.panels = {winner_map(panels, colours)};
  map.caption =
      "Fastest median. ≈: the spread of the second overlaps, no difference can be claimed. * "
      "emulated link.";
  return latency.html() + map.html();
}

}  // namespace shardlm::report
