#include "study/report/chart_map.h"

#include <fmt/format.h>

#include <algorithm>

namespace shardlm::report {

std::string map_chart(const MapChart& chart) {
  constexpr double kRow = 25, kTop = 42;
  std::size_t longest = 1;
  for (const std::string& row : chart.rows) longest = std::max(longest, row.size());
  const double left = 14 + kLetterWidth * static_cast<double>(longest), right = kChartWidth - 4;
  const double width =
      (right - left) / static_cast<double>(std::max<std::size_t>(chart.columns.size(), 1));
  Svg svg(chart.id, kTop + kRow * static_cast<double>(chart.rows.size()) + 6, chart.title,
          chart.description);
  svg.text(0, 13, chart.y_title, "title", "start");
  svg.text((left + right) / 2, 13, chart.x_title, "title", "middle");
  for (std::size_t c = 0; c < chart.columns.size(); ++c) {
    svg.text(left + width * (static_cast<double>(c) + 0.5), kTop - 8, chart.columns[c], "tick",
             "middle");
  }
  for (std::size_t r = 0; r < chart.rows.size(); ++r) {
    const double y = kTop + kRow * static_cast<double>(r);
    svg.text(left - 6, y + kRow / 2 + 4, chart.rows[r], "tick", "end");
    for (std::size_t c = 0; c < chart.columns.size(); ++c) {
      const Field& field = chart.fields[r][c];
      const double x = left + width * static_cast<double>(c);
      if (field.text.empty()) {
        svg.rect(x + 1, y + 1, width - 2, kRow - 2, "field none", "not measured");
        continue;
      }
      svg.rect(x + 1, y + 1, width - 2, kRow - 2,
               fmt::format("field s{}{}", field.colour, field.tied ? " tied" : ""), field.tip);
      const auto letters = static_cast<std::size_t>(std::max((width - 8) / kLetterWidth, 2.0));
      std::string text = field.tied ? "≈ " + field.text : field.text;
      if (text.size() > letters + (field.tied ? 2 : 0)) text = text.substr(0, letters);
      svg.text(x + width / 2, y + kRow / 2 + 4, text, "infield", "middle", field.tip);
    }
  }
  return svg.html();
}

}  // namespace shardlm::report
