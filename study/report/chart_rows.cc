#include "study/report/chart_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "study/report/html.h"
#include "study/report/number_text.h"
#include "study/report/scale.h"

namespace shardlm::report {
namespace {

// The first letters of a label that fit; the rest is in its tip.
std::string shortened(const std::string& text, std::size_t letters) {
  if (text.size() <= letters) return text;
  std::size_t end = letters - 1;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return text.substr(0, end) + "…";
}

constexpr std::size_t kLetters = 22;

template <class Row>
double label_width(const std::vector<Row>& rows) {
  std::size_t longest = 0;
  for (const Row& row : rows) longest = std::max(longest, std::min(row.label.size(), kLetters));
  return 10 + kLetterWidth * static_cast<double>(longest);
}

std::string part_legend(const BarChart& chart) {
  std::string items;
  for (std::size_t i = 0; i < chart.parts.size(); ++i) {
    items += fmt::format(
        "<li><svg class=\"key box\" viewBox=\"0 0 14 14\" aria-hidden=\"true\"><rect class=\"bar "
        "{}\" "
        "x=\"0\" y=\"0\" "
        "width=\"14\" height=\"14\"/></svg>{}</li>\n",
        chart.classes[i], escaped(chart.parts[i]));
  }
  return "<ul class=\"legend\">\n" + items + "</ul>\n";
}

}  // namespace

std::string bar_chart(const BarChart& chart) {
  constexpr double kRow = 30, kBar = 21;
  const double left = label_width(chart.bars);
  std::size_t end = 0;
  for (const Bar& b : chart.bars) end = std::max(end, b.end.size());
  const double right = kChartWidth - 10 - kLetterWidth * static_cast<double>(end);
  double most = 0;
  for (const Bar& b : chart.bars)
    most = std::max(most, std::accumulate(b.parts.begin(), b.parts.end(), 0.0));
  if (!(most > 0) || !std::isfinite(most)) return {};
  Svg svg(chart.id, kRow * static_cast<double>(chart.bars.size()) + 6, chart.title,
          chart.description);
  double y = 4;
  for (const Bar& b : chart.bars) {
    const double total = std::accumulate(b.parts.begin(), b.parts.end(), 0.0);
    svg.text(left - 8, y + kBar / 2 + 4, shortened(b.label, kLetters), "label", "end", b.label);
    double x = left;
    for (std::size_t i = 0; i < b.parts.size(); ++i) {
      const double share = total > 0 ? b.parts[i] / total : 0;
      const double width = b.parts[i] / (chart.shares && total > 0 ? total : most) * (right - left);
      svg.rect(x, y, width, kBar, "bar " + chart.classes[i],
               fmt::format("{}: {} {} ({})", chart.parts[i], number_text(b.parts[i]), chart.unit,
                           percent_text(share)));
      const std::string text = fmt::format("{:.0f}%", share * 100);
      if (width > kLetterWidth * static_cast<double>(text.size()) + 6)
        svg.text(x + width / 2, y + kBar / 2 + 4, text, "inbar " + chart.classes[i], "middle");
      x += width;
    }
    svg.text(x + 6, y + kBar / 2 + 4, b.end, "label", "start");
    y += kRow;
  }
  return part_legend(chart) + svg.html();
}

std::string dot_chart(const DotChart& chart) {
  constexpr double kRow = 30, kTop = 8;
  const double left = label_width(chart.dots),
               bottom = kTop + kRow * static_cast<double>(chart.dots.size());
  double low = 1e300, high = -1e300;
  const auto take = [&](const std::optional<double>& v) {
    if (!v || !std::isfinite(*v) || (chart.logarithmic && *v <= 0)) return;
    low = std::min(low, *v);
    high = std::max(high, *v);
  };
  for (const Dot& d : chart.dots) {
    take(d.value);
    take(d.low);
    take(d.high);
  }
  take(chart.rule);
  const Scale x = chart.logarithmic ? log_scale(low, high, left, kChartWidth - 16, 4)
                                    : linear_scale(low, high, left, kChartWidth - 16, 4);
  Svg svg(chart.id, bottom + 40, chart.title, chart.description);
  for (const Tick& t : x.ticks) {
    const double at = x.at(t.value);
    svg.line(at, kTop, at, bottom, t.label.empty() ? "grid minor" : "grid");
    if (!t.label.empty()) svg.text(at, bottom + 16, t.label, "tick", "middle");
  }
  if (chart.rule) svg.line(x.at(*chart.rule), kTop, x.at(*chart.rule), bottom, "rule");
  svg.line(left, bottom, kChartWidth - 16, bottom, "axis");
  double y = kTop + kRow / 2;
  for (const Dot& d : chart.dots) {
    svg.text(left - 8, y + 4, shortened(d.label, kLetters), "label", "end", d.label);
    const bool drawn = d.value && (!chart.logarithmic || *d.value > 0);
    if (drawn && d.low && d.high && (!chart.logarithmic || *d.low > 0)) {
      svg.path(fmt::format("M{0} {3}V{4}M{0} {2}H{1}M{1} {3}V{4}", coordinate(x.at(*d.low)),
                           coordinate(x.at(*d.high)), coordinate(y), coordinate(y - 4),
                           coordinate(y + 4)),
               fmt::format("whisker s{}", d.colour));
    }
    if (drawn) {
      svg.marker(d.colour, x.at(*d.value), y, d.hollow, d.text);
    } else {
      svg.text(left + 6, y + 4, d.text, "note", "start");
    }
    y += kRow;
  }
  svg.text((left + kChartWidth - 16) / 2, bottom + 34, chart.x_title, "title", "middle");
  return svg.html();
}

}  // namespace shardlm::report
