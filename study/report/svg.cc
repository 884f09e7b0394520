#include "study/report/svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "study/report/html.h"

namespace shardlm::report {

std::string coordinate(double pixels) {
  if (!std::isfinite(pixels)) pixels = 0;
  pixels = std::clamp(pixels, -1e5, 1e5);
  std::string text = fmt::format("{:.2f}", pixels);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.ends_with('.')) text.pop_back();
  return text == "-0" ? "0" : text;
}

Svg::Svg(std::string_view id, double height, std::string_view title, std::string_view description)
    : id_(escaped(id)), height_(height) {
  head_ = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" id=\"{0}\" class=\"chart\" role=\"img\" "
      "viewBox=\"0 0 {1} {2}\" aria-labelledby=\"{0}-t {0}-d\">\n"
      "<title id=\"{0}-t\">{3}</title>\n<desc id=\"{0}-d\">{4}</desc>\n",
      id_, coordinate(kChartWidth), coordinate(height), escaped(title), escaped(description));
}

void Svg::line(double x1, double y1, double x2, double y2, std::string_view css_class) {
  body_ += fmt::format("<line class=\"{}\" x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\"/>\n", css_class,
                       coordinate(x1), coordinate(y1), coordinate(x2), coordinate(y2));
}

namespace {

std::string tip_element(std::string_view tip) {
  return tip.empty() ? "" : "<title>" + escaped(tip) + "</title>";
}

}  // namespace

void Svg::text(double x, double y, std::string_view text, std::string_view css_class,
               std::string_view anchor, std::string_view tip) {
  body_ +=
      fmt::format("<text class=\"{}\" x=\"{}\" y=\"{}\" text-anchor=\"{}\">{}{}</text>\n",
                  css_class, coordinate(x), coordinate(y), anchor, tip_element(tip), escaped(text));
}

void Svg::rect(double x, double y, double width, double height, std::string_view css_class,
               std::string_view tip) {
  body_ +=
      fmt::format("<rect class=\"{}\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\">{}</rect>\n",
                  css_class, coordinate(x), coordinate(y), coordinate(std::max(width, 0.0)),
                  coordinate(std::max(height, 0.0)), tip_element(tip));
}

void Svg::path(std::string_view d, std::string_view css_class) {
  if (!d.empty()) body_ += fmt::format("<path class=\"{}\" d=\"{}\"/>\n", css_class, d);
}

std::string marker_path(int series, double x, double y, double r) {
  const auto at = [&](double dx, double dy) {
    return coordinate(x + dx * r) + " " + coordinate(y + dy * r);
  };
  switch (series % 8) {
    case 0:  // a disc
    case 6:
      return fmt::format("M{0}A{2} {2} 0 1 0 {1}A{2} {2} 0 1 0 {0}Z", at(-1, 0), at(1, 0),
                         coordinate(r));
    case 1:  // a square
    case 7:
      return fmt::format("M{}L{}L{}L{}Z", at(-0.9, -0.9), at(0.9, -0.9), at(0.9, 0.9),
                         at(-0.9, 0.9));
    case 2:  // triangles
      return fmt::format("M{}L{}L{}Z", at(0, -1.15), at(1.1, 0.85), at(-1.1, 0.85));
    case 4:
      return fmt::format("M{}L{}L{}Z", at(0, 1.15), at(1.1, -0.85), at(-1.1, -0.85));
    case 3:  // a diamond
      return fmt::format("M{}L{}L{}L{}Z", at(0, -1.25), at(1.25, 0), at(0, 1.25), at(-1.25, 0));
    default:  // a cross
      return fmt::format("M{}L{}L{}L{}L{}L{}L{}L{}L{}L{}L{}L{}Z", at(-0.4, -1.1), at(0.4, -1.1),
                         at(0.4, -0.4), at(1.1, -0.4), at(1.1, 0.4), at(0.4, 0.4), at(0.4, 1.1),
                         at(-0.4, 1.1), at(-0.4, 0.4), at(-1.1, 0.4), at(-1.1, -0.4),
                         at(-0.4, -0.4));
  }
}

void Svg::marker(int series, double x, double y, bool hollow, std::string_view tip) {
  body_ += fmt::format("<path class=\"mark s{}{}\" d=\"{}\">{}</path>\n", series,
                       hollow ? " hollow" : "", marker_path(series, x, y, 4.2), tip_element(tip));
}

void Svg::group(std::string_view id) { body_ += fmt::format("<g id=\"{}\">\n", escaped(id)); }
void Svg::end_group() { body_ += "</g>\n"; }

std::string Svg::html() const { return head_ + body_ + "</svg>\n"; }

}  // namespace shardlm::report
