#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "study/report/chart_xy.h"
#include "study/report/html.h"
#include "study/report/number_text.h"
#include "study/report/sections.h"
#include "study/report/what_if.h"
#include "study/statistics.h"

namespace shardlm::report {
namespace {

struct Pair {
  const BenchRow* row = nullptr;
  double predicted = 0;  ///< tokens/s
  double error() const { return predicted / row->rate.middle - 1; }
};

// Each prediction beside the row that it was made of: same cell, phase and ranks.
std::vector<Pair> pairs_of(const Facts& facts) {
  std::vector<Pair> pairs;
  for (const Prediction& p : facts.predictions) {
    for (const BenchRow& row : facts.benches) {
      if (row.cell != p.cell || row.decode != p.decode || row.batch != p.batch) continue;
      if (!p.decode && row.tokens != p.tokens) continue;
      const auto point = std::find_if(
          p.points.begin(), p.points.end(),
          [&](const PredictedPoint& x) { return x.ranks == row.ranks && x.nodes == row.nodes; });
      if (point != p.points.end()) pairs.push_back({&row, point->tokens_per_s});
    }
  }
  return pairs;
}

double median_error(const std::vector<Pair>& pairs) {
  std::vector<double> errors;
  for (const Pair& p : pairs) errors.push_back(std::abs(p.error()));
  return median(errors);
}

std::string scatter(const std::vector<Pair>& pairs, double low, double high) {
  XyChart chart{
      .id = "predicted-measured",
      .title = "Predicted against measured tokens per second",
      .description = "A point a test; on the diagonal the prediction was right; dotted: 15 % off.",
      .x = {.title = "predicted tokens/s", .logarithmic = true},
      .y = {.title = "measured tokens/s", .logarithmic = true},
      .height = 320};
  Series decode{.name = "decoding", .colour = 0, .line = Series::Line::none};
  Series prefill{.name = "prefill", .colour = 1, .line = Series::Line::none};
  for (const Pair& p : pairs) {
    Point point{.x = p.predicted,
                .y = p.row->rate.middle,
                .low = p.row->rate.low,
                .high = p.row->rate.high,
                .tip = fmt::format("{} on {}: predicted {}, measured {} ({})", row_phrase(*p.row),
                                   count_text(p.row->ranks, "rank"), number_text(p.predicted),
                                   number_text(p.row->rate.middle), signed_percent_text(p.error())),
                .hollow = p.row->doubtful()};
    (p.row->decode ? decode : prefill).points.push_back(std::move(point));
  }
  const auto line = [&](const std::string& name, double factor, int colour) {
    return Series{.name = name,
                  .colour = colour,
                  .line = Series::Line::dashed,
                  .points = {{.x = low, .y = low * factor}, {.x = high, .y = high * factor}}};
  };
  for (Series* s : {&decode, &prefill}) {
    if (!s->points.empty()) chart.series.push_back(std::move(*s));
  }
  chart.series.push_back(line("equal", 1, 8));
  chart.series.push_back(line("15 % off", 1.15, 9));
  chart.series.push_back(line("", 0.85, 9));
  return xy_chart(chart);
}

std::string prediction_figure(const Facts& facts) {
  const auto pairs = pairs_of(facts);
  if (pairs.empty()) return {};
  double low = 1e300, high = 0;
  std::size_t within = 0;
  for (const Pair& p : pairs) {
    low = std::min({low, p.predicted, p.row->rate.middle});
    high = std::max({high, p.predicted, p.row->rate.middle});
    within += std::abs(p.error()) <= 0.15 ? 1 : 0;
  }
  const auto worst = std::max_element(pairs.begin(), pairs.end(), [](const Pair& a, const Pair& b) {
    return std::abs(a.error()) < std::abs(b.error());
  });
  const double error = median_error(pairs);
  Figure f{.id = "predictions", .title = "Predicted against measured"};
  f.reading = fmt::format(
      "The median error of {} is <b>{}</b>, {}; {} lie within 15 %. The worst is {} on {}: {}.",
      count_text(static_cast<double>(pairs.size()), "prediction"), percent_text(error),
      error <= 0.15 ? "inside the goal of 15 %" : "<b>outside the goal of 15 %</b>", within,
      escaped(row_phrase(*worst->row)), count_text(worst->row->ranks, "rank"),
      signed_percent_text(worst->error()));
  if (worst->row->doubtful()) f.reading += " (That cell is " + escaped(doubts(*worst->row)) + ".)";
  f.panels = {scatter(pairs, low, high)};
  Rows rows;
  for (const Pair& p : pairs) rows.push_back(p.row);
  f.caption =
      "Predictions come from the calibration and one-rank times, made before these tests and never "
      "refitted to them. " +
      launches_phrase(rows) + hollow_phrase(rows);
  Table table("Predicted and measured",
              {"cell", "test", "ranks", "nodes", "predicted tokens/s", "measured tokens/s",
               "low…high", "error", "doubts"},
              2);
  for (const Pair& p : pairs)
    table.row({p.row->cell, row_phrase(*p.row), std::to_string(p.row->ranks),
               std::to_string(p.row->nodes), number_text(p.predicted),
               number_text(p.row->rate.middle), range_text(p.row->rate),
               signed_percent_text(p.error()), doubts(*p.row)});
  f.tables = table.details();
  return f.html();
}

std::string collective_figure(const Facts& facts) {
  std::map<std::pair<std::string, int>, std::vector<double>> errors;
  std::vector<double> all;
  for (const CollRow& row : facts.colls) {
    if (!row.model_us) continue;
    const double error = std::abs(*row.model_us / row.us.middle - 1);
    errors[{row.algorithm, row.ranks}].push_back(error);
    all.push_back(error);
  }
  if (all.empty()) return {};
  Table table("Error of the model by algorithm",
              {"algorithm", "ranks", "sizes", "median error", "largest error"});
  for (auto& [key, values] : errors) {
    const double largest = *std::max_element(values.begin(), values.end());
    table.row({key.first, std::to_string(key.second), std::to_string(values.size()),
               percent_text(median(values)), percent_text(largest)});
  }
  Figure f{.id = "collective-model", .title = "Model of the collectives"};
  f.reading = fmt::format(
      "Over {} of algorithm, size and ranks the model is off by {} in the median.",
      count_text(static_cast<double>(all.size()), "combination"), percent_text(median(all)));
  f.tables = table.html();
  return f.html();
}

std::string link_figure(const Facts& facts) {
  if (facts.links.empty()) return {};
  Table table("Fitted links",
              {"class", "transport", "network", "pairs", "from", "to", "latency α", "1/β GB/s",
               "message o", "fit error"},
              3);
  for (const LinkClass& c : facts.links) {
    for (const Segment& s : c.segments)
      table.row({c.name, c.transport, c.emulate.empty() ? "real" : "emulated " + c.emulate,
                 number_text(c.pairs, 6), bytes_text(s.from), s.to > 0 ? bytes_text(s.to) : "∞",
                 time_text(s.alpha_s),
                 s.beta_s_per_byte > 0 ? number_text(1e-9 / s.beta_s_per_byte) : "–",
                 time_text(c.per_message_s), percent_text(c.fit_error)});
  }
  const LinkClass& first = facts.links.front();
  Figure f{.id = "links", .title = "What the links cost"};
  f.reading = fmt::format("A small message over {} costs {} to start", escaped(link_name(first)),
                          time_text(first.segments.front().alpha_s));
  for (std::size_t i = 1; i < facts.links.size(); ++i)
    f.reading += fmt::format("; over {}, {}", escaped(link_name(facts.links[i])),
                             time_text(facts.links[i].segments.front().alpha_s));
  f.reading += ".";
  f.caption =
      "Fitted by pieces to ping-pong times (5th percentile), relative errors squared; T(n) = α + n "
      "β.";
  f.tables = table.html();
  return f.html();
}

}  // namespace

std::string model_highlight(const Facts& facts) {
  const auto pairs = pairs_of(facts);
  if (pairs.empty()) return {};
  return fmt::format("Predictions made before measuring are off by {} in the median ({}).",
                     percent_text(median_error(pairs)),
                     count_text(static_cast<double>(pairs.size()), "test"));
}

std::string model_section(const Facts& facts) {
  return prediction_figure(facts) + collective_figure(facts) + link_figure(facts);
}

}  // namespace shardlm::report
