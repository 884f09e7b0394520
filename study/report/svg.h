// SVG, element by element. Colours and fonts are classes of the page's style, so that a picture
// follows the theme.
#pragma once

#include <string>
#include <string_view>

namespace shardlm::report {

/// Every chart is drawn this wide (in its own units) and shown 300 to 480 pixels wide, so its
/// letters stay legible on a phone.
inline constexpr double kChartWidth = 400;
/// What a letter of an axis takes at most, on average.
inline constexpr double kLetterWidth = 7.2;

std::string coordinate(double pixels);  ///< two decimals at most; never "nan"

class Svg {
 public:
  /// `title` and `description`: texts, for those who do not see the picture.
  Svg(std::string_view id, double height, std::string_view title, std::string_view description);

  void line(double x1, double y1, double x2, double y2, std::string_view css_class);
  /// `anchor`: "start", "middle", "end". `tip` shows while a pointer rests on it.
  void text(double x, double y, std::string_view text, std::string_view css_class,
            std::string_view anchor, std::string_view tip = {});
  void rect(double x, double y, double width, double height, std::string_view css_class,
            std::string_view tip = {});
  void path(std::string_view d, std::string_view css_class);
  /// A shape of its own for each series (0…7, then again), filled or an outline.
  void marker(int series, double x, double y, bool hollow, std::string_view tip);
  void group(std::string_view id);  ///< until end_group(): what a script may find
  void end_group();

  std::string html() const;

 private:
  std::string id_, head_, body_;
  double height_;
};

/// The path of series `s`'s shape around (x, y).
std::string marker_path(int series, double x, double y, double size);

}  // namespace shardlm::report
