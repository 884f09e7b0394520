// Charts with a row for each of a few named things: stacked bars, and points with whiskers.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "study/report/svg.h"

namespace shardlm::report {

struct Bar {
  std::string label;
  std::vector<double> parts;
  std::string end = {};  ///< written behind the bar
};
struct BarChart {
  std::string id, title, description;
  std::vector<std::string> parts;    ///< names
  std::vector<std::string> classes;  ///< of the page's style, one a part
  std::vector<Bar> bars = {};
  std::string unit = {};  ///< of the tips
  bool shares = false;    ///< each bar as long as the others
};
std::string bar_chart(const BarChart& chart);

struct Dot {
  std::string label;
  std::optional<double> value = {}, low = {}, high = {};
  std::string text = {};  ///< in the place of the point where there is none, else its tip
  int colour = 0;
  bool hollow = false;
};
struct DotChart {
  std::string id, title, description, x_title;
  std::vector<Dot> dots = {};
  bool logarithmic = false;
  std::optional<double> rule = {};  ///< a line to compare with
};
std::string dot_chart(const DotChart& chart);

}  // namespace shardlm::report
