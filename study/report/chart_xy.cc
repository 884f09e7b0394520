#include "study/report/chart_xy.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "study/report/html.h"
#include "study/report/number_text.h"

namespace shardlm::report {
namespace {

constexpr double kTop = 30, kBottom = 42, kRight = 14;

struct Extent {
  double low = std::numeric_limits<double>::infinity();
  double high = -low;
  void take(double v) {
    if (!std::isfinite(v)) return;
    low = std::min(low, v);
    high = std::max(high, v);
  }
};

Scale scale_of(const Axis& axis, Extent e, double from, double to, int count) {
  if (axis.least) e.take(*axis.least);
  if (axis.most) e.take(*axis.most);
  const bool near =
      e.low > 0 && e.high < axis.zero_below * e.low;  // a logarithm would magnify nothing
  Scale s = axis.logarithmic && !near ? log_scale(e.low, e.high, from, to, count)
                                      : linear_scale(e.low, e.high, from, to, count);
  if (!axis.ticks.empty()) s.ticks = axis.ticks;
  std::erase_if(s.ticks, [&](const Tick& t) {
    return t.value < s.low * (s.low > 0 ? 0.999 : 1.001) || t.value > s.high * 1.001;
  });
  return s;
}

bool drawable(const Point& p, const XyChart& chart) {
  return std::isfinite(p.x) && std::isfinite(p.y) && (!chart.x.logarithmic || p.x > 0) &&
         (!chart.y.logarithmic || p.y > 0);
}

// The longest label decides where the vertical axis stands.
double left_margin(const Scale& y) {
  std::size_t longest = 1;
  for (const Tick& t : y.ticks) longest = std::max(longest, t.label.size());
  return std::min(14 + kLetterWidth * static_cast<double>(longest), 90.0);
}

// Labels of the horizontal axis that would touch the one before lose their text.
void thin_labels(Scale& x) {
  double free = -1e9;
  for (Tick& t : x.ticks) {
    if (t.label.empty()) continue;
    const double half = kLetterWidth * static_cast<double>(t.label.size()) / 2;
    const double at = x.at(t.value);
    if (at - half < free) {
      t.label.clear();
    } else {
      free = at + half + 5;
    }
  }
}

void draw_axes(Svg& svg, const XyChart& chart, const Frame& f) {
  const double left = f.x.from, right = f.x.to, bottom = f.y.from;
  for (const Tick& t : f.y.ticks) {
    const double y = f.y.at(t.value);
    svg.line(left, y, right, y, t.label.empty() ? "grid minor" : "grid");
    if (!t.label.empty()) svg.text(left - 6, y + 4, t.label, "tick", "end");
  }
  svg.line(left, bottom, right, bottom, "axis");
  for (const Tick& t : f.x.ticks) {
    const double x = f.x.at(t.value);
    svg.line(x, bottom, x, bottom + (t.label.empty() ? 3 : 5), "axis");
    if (!t.label.empty()) svg.text(x, bottom + 17, t.label, "tick", "middle");
  }
  svg.text(0, 13, chart.y.title, "title", "start");
  svg.text((left + right) / 2, bottom + 35, chart.x.title, "title", "middle");
}

void draw_rules(Svg& svg, const XyChart& chart, const Frame& f) {
  for (const Rule& r : chart.rules) {
    const Scale& s = r.vertical ? f.x : f.y;
    if (!std::isfinite(r.value) || (s.logarithmic && r.value <= 0)) continue;
    const double at = s.at(r.value);
    if (r.vertical) {
      svg.line(at, f.y.to - 8, at, f.y.from, "rule");
      if (!r.label.empty()) svg.text(at - 4, f.y.to - 5, r.label, "note", "end");
    } else {
      svg.line(f.x.from, at, f.x.to, at, "rule");
      svg.text(f.x.to, at - 4, r.label, "note", "end");
    }
  }
}

std::string line_path(const Series& s, const XyChart& chart, const Frame& f) {
  std::string d;
  for (const Point& p : s.points) {
    if (!drawable(p, chart)) continue;
    const std::string x = coordinate(f.x.at(p.x)), y = coordinate(f.y.at(p.y));
    if (d.empty()) {
      d = "M" + x + " " + y;
    } else if (s.line == Series::Line::steps) {
      d += "H" + x + "V" + y;
    } else {
      d += "L" + x + " " + y;
    }
  }
  return d;
}

void draw_series(Svg& svg, const Series& s, const XyChart& chart, const Frame& f) {
  const std::string colour = fmt::format("s{}", s.colour);
  if (s.line != Series::Line::none) {
    const char* dash = s.line == Series::Line::dashed ? " dashed" : "";
    svg.path(line_path(s, chart, f), fmt::format("line {}{}", colour, dash));
  }
  if (s.line != Series::Line::none && s.line != Series::Line::solid) return;
  for (const Point& p : s.points) {
    if (!drawable(p, chart)) continue;
    const double x = f.x.at(p.x);
    if (p.low && p.high && (!chart.y.logarithmic || *p.low > 0)) {
      const double low = f.y.at(*p.low), high = f.y.at(*p.high);
      svg.path(fmt::format("M{0} {2}H{1}M{3} {2}V{4}M{0} {4}H{1}", coordinate(x - 3.5),
                           coordinate(x + 3.5), coordinate(low), coordinate(x), coordinate(high)),
               "whisker " + colour);
    }
    svg.marker(s.colour, x, f.y.at(p.y), p.hollow, p.tip);
  }
}

}  // namespace

Frame frame_of(const XyChart& chart) {
  Extent x, y;
  for (const Series& s : chart.series) {
    for (const Point& p : s.points) {
      if (!drawable(p, chart)) continue;
      x.take(p.x);
      y.take(p.y);
      if (p.low && (!chart.y.logarithmic || *p.low > 0)) y.take(*p.low);
      if (p.high) y.take(*p.high);
    }
  }
  for (const Rule& r : chart.rules) {
    if (r.value > 0) (r.vertical ? x : y).take(r.value);
  }
  Frame f;
  f.y = scale_of(chart.y, y, chart.height - kBottom, kTop, 5);
  f.x = scale_of(chart.x, x, left_margin(f.y), kChartWidth - kRight, 6);
  thin_labels(f.x);
  return f;
}

std::string legend(const std::vector<Series>& series) {
  std::string items;
  for (const Series& s : series) {
    if (s.name.empty()) continue;
    std::string mark;
    const std::string dash = s.line == Series::Line::dashed ? " dashed" : "";
    if (s.line != Series::Line::none)
      mark += fmt::format("<path class=\"line s{}{}\" d=\"M1 7H25\"/>", s.colour, dash);
    if (s.line == Series::Line::none || s.line == Series::Line::solid) {
      mark += fmt::format("<path class=\"mark s{}\" d=\"{}\"/>", s.colour,
                          marker_path(s.colour, 13, 7, 4.2));
    }
    items += fmt::format(
        "<li><svg class=\"key\" viewBox=\"0 0 26 14\" aria-hidden=\"true\">{}</svg>{}</li>\n", mark,
        escaped(s.name));
  }
  return items.empty() ? "" : "<ul class=\"legend\">\n" + items + "</ul>\n";
}

std::string xy_chart(const XyChart& chart) {
  const Frame f = frame_of(chart);
  Svg svg(chart.id, chart.height, chart.title, chart.description);
  draw_axes(svg, chart, f);
  draw_rules(svg, chart, f);
  // What was not measured lies below what was.
  for (const bool measured : {false, true}) {
    for (const Series& s : chart.series) {
      if ((s.line != Series::Line::dashed) == measured) draw_series(svg, s, chart, f);
    }
  }
  return legend(chart.series) + svg.html();
}

std::vector<Tick> value_ticks(const std::vector<double>& values) {
  std::vector<Tick> ticks;
  for (const double v : values) ticks.push_back({v, number_text(v, 6)});
  return ticks;
}

std::vector<Tick> byte_ticks(double low, double high) {
  std::vector<Tick> ticks;
  if (!(low > 0) || !(high < 1e18)) return ticks;
  const double octaves = std::log2(high / low);
  const int every = octaves > 12 ? 4 : octaves > 5 ? 2 : 1;
  for (int i = static_cast<int>(std::floor(std::log2(low)));
       i <= static_cast<int>(std::ceil(std::log2(high))); ++i) {
    if (i % every == 0) ticks.push_back({std::exp2(i), bytes_text(std::exp2(i))});
  }
  return ticks;
}

}  // namespace shardlm::report
