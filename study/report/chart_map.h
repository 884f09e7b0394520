// A map: a named thing in each field of a grid.
#pragma once

#include <string>
#include <vector>

#include "study/report/svg.h"

namespace shardlm::report {

struct Field {
  std::string text = {};  ///< empty: nothing was measured
  int colour = 0;
  bool tied = false;  ///< another is as good
  std::string tip = {};
};
struct MapChart {
  std::string id, title, description, x_title, y_title;
  std::vector<std::string> columns, rows;  ///< rows from the top
  std::vector<std::vector<Field>> fields;  ///< [row][column]
};
std::string map_chart(const MapChart& chart);

}  // namespace shardlm::report
