// Points and lines over two axes, each linear or logarithmic: scaling curves, latencies, scatter
// plots, distributions.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "study/report/scale.h"
#include "study/report/svg.h"

namespace shardlm::report {

struct Point {
  double x = 0, y = 0;
  std::optional<double> low = {}, high = {};  ///< of y: whiskers
  std::string tip = {};
  bool hollow = false;  ///< there are doubts about it: noisy, more ranks than cores
};

struct Series {
  enum class Line {
    none,    ///< points only: nothing lies between them
    solid,   ///< points joined
    plain,   ///< the same without the points: a formula
    dashed,  ///< a model, a bound: no points
    steps,   ///< a distribution: no points
  };
  std::string name;
  int colour = 0;  ///< also the shape; 8: grey, for what was not measured
  Line line = Line::solid;
  std::vector<Point> points = {};
};

struct Axis {
  std::string title;
  bool logarithmic = false;
  double zero_below = 0;  ///< linear from 0 if the largest value is under so many times the least
  std::vector<Tick> ticks = {};                 ///< empty: chosen
  std::optional<double> least = {}, most = {};  ///< the domain holds these too
};

/// A dotted line across, with a word.
struct Rule {
  double value = 0;
  std::string label = {};
  bool vertical = false;
};

struct XyChart {
  std::string id, title, description;
  Axis x, y;
  std::vector<Series> series = {};
  std::vector<Rule> rules = {};
  double height = 270;
};

/// Where the axes stand: for a script that draws into the same picture.
struct Frame {
  Scale x, y;
};
Frame frame_of(const XyChart& chart);

/// Legend (if anything has a name) and picture.
std::string xy_chart(const XyChart& chart);
std::string legend(const std::vector<Series>& series);

/// Powers of two or the given values, as ticks with these labels.
std::vector<Tick> value_ticks(const std::vector<double>& values);
std::vector<Tick> byte_ticks(double low, double high);

}  // namespace shardlm::report
