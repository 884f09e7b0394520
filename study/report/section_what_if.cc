#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "study/report/chart_xy.h"
#include "study/report/html.h"
#include "study/report/number_text.h"
#include "study/report/sections.h"
#include "study/report/what_if.h"

namespace shardlm::report {
namespace {

constexpr double kLeastAlpha = 1e-7, kMostAlpha = 1e-3;  // seconds
constexpr double kLeastRate = 5e7, kMostRate = 5e11;     // bytes a second
constexpr int kPoints = 60;

LinkCost at(LinkCost link, double alpha_s) {
  link.alpha_s = alpha_s;
  return link;
}

XyChart chart_of(const WhatIf& w) {
  XyChart chart{
      .id = "what-if-chart",
      .title = "Time of a token against the latency of the link",
      .description = "A curve for each number of ranks; the vertical line is the chosen latency.",
      .x = {.title = "latency of a message, µs", .logarithmic = true},
      .y = {.title = "ms a token", .logarithmic = true},
      .height = 320};
  LinkCost slowest = at(w.link, kMostAlpha);
  slowest.beta_s_per_byte = 1 / kLeastRate;
  double most = 0;
  for (std::size_t i = 0; i < w.ranks.size(); ++i) {
    Series s{.name = count_text(w.ranks[i].ranks, "rank"),
             .colour = static_cast<int>(i),
             .line = Series::Line::plain};
    for (int k = 0; k <= kPoints; ++k) {
      const double alpha =
          kLeastAlpha * std::pow(kMostAlpha / kLeastAlpha, static_cast<double>(k) / kPoints);
      s.points.push_back(
          {.x = alpha * 1e6, .y = what_if_step(w, w.ranks[i], at(w.link, alpha)).ms});
    }
    most = std::max(most, what_if_step(w, w.ranks[i], slowest).ms);
    chart.series.push_back(std::move(s));
  }
  chart.y.most = most;
  chart.rules.push_back({.value = std::clamp(w.link.alpha_s, kLeastAlpha, kMostAlpha) * 1e6,
                         .label = "",
                         .vertical = true});
  return chart;
}

nlohmann::ordered_json scale_json(const Scale& s) {
  return {{"low", s.low}, {"high", s.high}, {"from", s.from}, {"to", s.to}};
}

std::string data_json(const Facts& facts, const WhatIf& w, const XyChart& chart) {
  nlohmann::ordered_json json = {{"calls", w.calls},
                                 {"gamma", w.link.gamma_s_per_byte},
                                 {"o", w.link.per_message_s},
                                 {"alpha", w.link.alpha_s},
                                 {"beta", w.link.beta_s_per_byte},
                                 {"batch", w.batch},
                                 {"least_alpha", kLeastAlpha},
                                 {"most_alpha", kMostAlpha},
                                 {"points", kPoints},
                                 {"ranks", nlohmann::ordered_json::array()},
                                 {"links", nlohmann::ordered_json::array()}};
  for (const WhatIfRanks& r : w.ranks) {
    nlohmann::ordered_json one = {{"ranks", r.ranks},
                                  {"base_ms", r.base_ms},
                                  {"algorithms", nlohmann::ordered_json::array()}};
    for (const auto& c : r.algorithms)
      one["algorithms"].push_back(
          {c.name, c.terms.rounds, c.terms.moved_bytes, c.terms.summed_bytes, c.terms.messages});
    json["ranks"].push_back(std::move(one));
  }
  for (const LinkClass& c : facts.links) {
    const Segment& s = c.segments.front();
    json["links"].push_back({{"name", c.name},
                             {"alpha", s.alpha_s},
                             {"beta", s.beta_s_per_byte},
                             {"o", c.per_message_s}});
  }
  const Frame frame = frame_of(chart);
  json["x"] = scale_json(frame.x);
  json["y"] = scale_json(frame.y);
  return script_safe(json.dump(-1, ' ', true, nlohmann::ordered_json::error_handler_t::replace));
}

std::string slider(const std::string& id, const std::string& label, double low, double high,
                   double value, const std::string& text) {
  return fmt::format(
      "<label for=\"{0}\">{1} <output id=\"{0}-text\">{5}</output></label>\n"
      "<input type=\"range\" id=\"{0}\" min=\"{2:.3f}\" max=\"{3:.3f}\" step=\"0.01\" "
      "value=\"{4:.5f}\">\n",
      id, escaped(label), std::log10(low), std::log10(high),
      std::log10(std::clamp(value, low, high)), escaped(text));
}

// Without a script the sliders stay hidden, and the tables say what there is.
std::string sliders(const Facts& facts, const WhatIf& w) {
  const double rate = 1 / w.link.beta_s_per_byte;
  std::string html = "<div class=\"sliders\" id=\"what-if-sliders\" hidden>\n" +
                     slider("what-if-alpha", "Latency", kLeastAlpha, kMostAlpha, w.link.alpha_s,
                            time_text(w.link.alpha_s)) +
                     slider("what-if-rate", "Bandwidth", kLeastRate, kMostRate, rate,
                            number_text(rate / 1e9) + " GB/s");
  html += "<p class=\"presets\">Set to: ";
  for (std::size_t i = 0; i < facts.links.size(); ++i)
    html += fmt::format("<button type=\"button\" data-link=\"{}\">{}</button> ", i,
                        escaped(link_name(facts.links[i])));
  if (facts.links.empty()) html += "<button type=\"button\" data-link=\"start\">start</button>";
  return html + "</p>\n</div>\n";
}

std::string now_table(const WhatIf& w) {
  const double one = what_if_step(w, w.ranks.front(), w.link).ms;
  std::string rows;
  for (const WhatIfRanks& r : w.ranks) {
    const WhatIfStep s = what_if_step(w, r, w.link);
    rows += fmt::format(
        "<tr><th scope=\"row\">{}</th><td class=\"n\">{:.3f}</td><td class=\"n\">{:.1f}</td><td "
        "class=\"n\">{:.2f}</td>"
        "<td class=\"n\">{:.0f} %</td><td>{}</td></tr>\n",
        r.ranks, s.ms, 1e3 * w.batch / s.ms, one / s.ms, 100 * (s.ms - r.base_ms) / s.ms,
        s.algorithm.empty() ? "–" : escaped(s.algorithm));
  }
  return "<div class=\"scroll\" role=\"region\" aria-label=\"At the chosen link\" "
         "tabindex=\"0\"><table id=\"what-if-now\">\n"
         "<caption>At the chosen link</caption>\n<thead><tr><th scope=\"col\">ranks</th><th "
         "scope=\"col\" class=\"n\">ms a token</th>"
         "<th scope=\"col\" class=\"n\">tokens/s</th><th scope=\"col\" "
         "class=\"n\">speed-up</th><th scope=\"col\" class=\"n\">in all-reduce</th>"
         "<th scope=\"col\">algorithm</th></tr></thead>\n<tbody>\n" +
         rows + "</tbody></table></div>\n";
}

std::string latency_table(const WhatIf& w) {
  std::vector<std::string> heads = {"latency"};
  for (const WhatIfRanks& r : w.ranks) heads.push_back(count_text(r.ranks, "rank"));
  Table table("ms a token by latency, at the bandwidth of the start", heads);
  for (const double us : {0.5, 1.0, 5.0, 10.0, 50.0, 100.0, 500.0, 1000.0}) {
    std::vector<std::string> row = {number_text(us) + " µs"};
    for (const WhatIfRanks& r : w.ranks)
      row.push_back(number_text(what_if_step(w, r, at(w.link, us * 1e-6)).ms));
    table.row(row);
  }
  return table.details("Table by latency");
}

// The latency from which on r is no faster than the fewest ranks; none up to 1 ms.
std::optional<double> break_even(const WhatIf& w, const WhatIfRanks& r) {
  const double one = w.ranks.front().base_ms;
  if (what_if_step(w, r, at(w.link, kMostAlpha)).ms < one) return std::nullopt;
  double low = 1e-10, high = kMostAlpha;
  if (what_if_step(w, r, at(w.link, low)).ms >= one) return 0;
  for (int i = 0; i < 60; ++i) {
    const double middle = std::sqrt(low * high);
    (what_if_step(w, r, at(w.link, middle)).ms < one ? low : high) = middle;
  }
  return low;
}

std::string reading_of(const WhatIf& w) {
  std::vector<std::string> never, until;
  for (const WhatIfRanks& r : w.ranks) {
    if (r.ranks == w.ranks.front().ranks) continue;
    const auto alpha = break_even(w, r);
    if (!alpha) continue;
    if (*alpha == 0) {
      never.push_back(std::to_string(r.ranks));
    } else {
      until.push_back(fmt::format("{} up to {}", r.ranks, time_text(*alpha)));
    }
  }
  std::string text;
  if (!until.empty())
    text = fmt::format(
        "By the model, ranks pay against {} as long as a message's latency stays low: {}.",
        w.ranks.front().ranks, list_text(until));
  if (!never.empty()) text += " At this bandwidth never: " + list_text(never) + " ranks.";
  if (text.empty())
    text = "By the model, all rank counts here stay faster than one up to a latency of 1 ms.";
  return text;
}

// Rows over emulated links that differ in nothing but their latency.
std::string measured_figure(const Facts& facts) {
  std::vector<Group> groups;
  for (Group group : group_rows(facts.benches, {"emulate"})) {
    if (!group.rows.front()->decode) continue;
    std::erase_if(group.rows, [](const BenchRow* row) {
      return !(list_number(row->emulate, "latency_us").value_or(0) > 0);
    });
    std::stable_sort(group.rows.begin(), group.rows.end(), [](auto* a, auto* b) {
      return *list_number(a->emulate, "latency_us") < *list_number(b->emulate, "latency_us");
    });
    if (group.rows.size() > 1 && group.rows.front()->ranks > 1) groups.push_back(std::move(group));
  }
  if (groups.empty()) return {};
  groups.resize(std::min<std::size_t>(groups.size(), 6));
  XyChart chart{.id = "emulated-latency",
                .title = "Measured time of a step against the emulated latency",
                .description = "Both axes logarithmic; a line a configuration.",
                .x = {.title = "emulated latency, µs", .logarithmic = true},
                .y = {.title = "ms a step", .logarithmic = true, .zero_below = 2.5}};
  const auto labels = group_labels(groups);
  Rows rows;
  Table table("Measured over emulated links",
              {"configuration", "emulated link", "n", "ms a step", "tokens/s", "doubts"}, 2);
  for (std::size_t i = 0; i < groups.size(); ++i) {
    Series s{
        .name = labels[i] == "all" ? count_text(groups[i].rows.front()->ranks, "rank") : labels[i],
        .colour = static_cast<int>(i)};
    for (const BenchRow* row : groups[i].rows) {
      rows.push_back(row);
      s.points.push_back(
          {.x = *list_number(row->emulate, "latency_us"),
           .y = row->time_ms.middle,
           .low = row->time_ms.low,
           .high = row->time_ms.high,
           .tip = fmt::format("{}: {} ms", row->emulate, number_text(row->time_ms.middle)),
           .hollow = row->doubtful()});
      table.row({labels[i], row->emulate, std::to_string(row->rate.launches),
                 number_text(row->time_ms.middle), number_text(row->rate.middle), doubts(*row)});
    }
    chart.series.push_back(std::move(s));
  }
  const BenchRow &first = *groups.front().rows.front(), &last = *groups.front().rows.back();
  Figure f{.id = "emulated", .title = "Measured under emulated latency"};
  f.reading = fmt::format(
      "On {}, raising the emulated latency from {} to {} µs takes a step from {} to {} ms.",
      count_text(first.ranks, "rank"), number_text(*list_number(first.emulate, "latency_us")),
      number_text(*list_number(last.emulate, "latency_us")), number_text(first.time_ms.middle),
      number_text(last.time_ms.middle));
  f.panels = {xy_chart(chart)};
  f.caption = "Emulated: delays are added to real exchanges on this machine. " +
              launches_phrase(rows) + hollow_phrase(rows);
  f.tables = table.details();
  return f.html();
}

}  // namespace

std::string what_if_section(const Facts& facts) {
  const auto w = make_what_if(facts);
  if (!w) return measured_figure(facts);
  const XyChart chart = chart_of(*w);
  Figure f{.id = "what-if", .title = "A token over another link", .reading = reading_of(*w)};
  f.panels = {xy_chart(chart), sliders(facts, *w) + now_table(*w)};
  f.caption = fmt::format(
      "Nothing here is measured: {} of each rank count, plus {} all-reduces of {} by the formulas "
      "of the quickest algorithm by messages, "
      "all ranks over one kind of link, no waiting for it. Start: {}.",
      w->source, number_text(w->calls, 6), bytes_text(w->bytes), escaped(w->start));
  f.tables = latency_table(*w) + "<script type=\"application/json\" id=\"what-if-data\">" +
             data_json(facts, *w, chart) + "</script>\n";
  return f.html() + measured_figure(facts);
}

}  // namespace shardlm::report
