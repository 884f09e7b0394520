// Escaping, tables and charts of the report as text.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "study/report/chart_map.h"
#include "study/report/chart_rows.h"
#include "study/report/chart_xy.h"
#include "study/report/html.h"

namespace shardlm::report {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

const std::string kReplaced = "\xEF\xBF\xBD";

TEST(ReportHtml, what_markup_is_made_of_is_escaped) {
  EXPECT_EQ(escaped("<a b=\"c\" d='e'>&amp;"), "&lt;a b=&quot;c&quot; d=&#39;e&#39;&gt;&amp;amp;");
  EXPECT_EQ(escaped("Grüße, 漢字, 𝄞\n\t"), "Grüße, 漢字, 𝄞\n\t") << "other text stays";
}

TEST(ReportHtml, bytes_that_are_no_text_are_replaced) {
  EXPECT_EQ(escaped(std::string_view("a\0b", 3)), "a" + kReplaced + "b");
  EXPECT_EQ(escaped("\x07\x1b[31m"), kReplaced + kReplaced + "[31m");
  EXPECT_EQ(escaped("\u202Etxt.exe"), kReplaced + "txt.exe") << "right-to-left override";
  EXPECT_EQ(escaped("\xff\xfe"), kReplaced + kReplaced);
  EXPECT_EQ(escaped("\xC0\xAF"), kReplaced + kReplaced) << "an overlong slash";
  EXPECT_EQ(escaped("\xED\xA0\x80"), kReplaced + kReplaced + kReplaced)
      << "half of a surrogate pair";
  EXPECT_EQ(escaped("\xE2\x82"), kReplaced + kReplaced) << "cut short";
}

TEST(ReportHtml, nothing_ends_a_script_element) {
  EXPECT_EQ(script_safe("{\"a\":\"</script><!--\"}"), "{\"a\":\"\\u003c/script>\\u003c!--\"}");
}

TEST(ReportHtml, a_table_escapes_its_cells_and_needs_all_of_them) {
  Table table("<cap>", {"<name>", "value"});
  EXPECT_EQ(table.details(), "") << "no rows, no table";
  table.row({"<b>", "1"});
  const std::string html = table.details();
  EXPECT_THAT(html, HasSubstr("&lt;b&gt;"));
  EXPECT_THAT(html, HasSubstr("&lt;cap&gt;"));
  EXPECT_THAT(html, Not(HasSubstr("<b>")));
  EXPECT_ANY_THROW(table.row({"one cell"}));
}

TEST(ReportChart, points_are_joined_only_where_the_series_says_so) {
  XyChart chart{
      .id = "c", .title = "t", .description = "d", .x = {.title = "x"}, .y = {.title = "y"}};
  chart.series.push_back(
      {.name = "a", .line = Series::Line::none, .points = {{.x = 1, .y = 1}, {.x = 2, .y = 3}}});
  EXPECT_THAT(xy_chart(chart), Not(HasSubstr("class=\"line")));
  chart.series[0].line = Series::Line::solid;
  EXPECT_THAT(xy_chart(chart), HasSubstr("class=\"line s0\""));
}

TEST(ReportChart, whiskers_only_of_points_that_have_ends) {
  XyChart chart{
      .id = "c", .title = "t", .description = "d", .x = {.title = "x"}, .y = {.title = "y"}};
  chart.series.push_back({.name = "a", .points = {{.x = 1, .y = 1}}});
  EXPECT_THAT(xy_chart(chart), Not(HasSubstr("whisker")));
  chart.series[0].points[0].low = 0.5;
  chart.series[0].points[0].high = 1.5;
  EXPECT_THAT(xy_chart(chart), HasSubstr("whisker"));
}

TEST(ReportChart, values_that_cannot_be_drawn_leave_no_trace) {
  const double inf = std::numeric_limits<double>::infinity(), nan = std::nan("");
  XyChart chart{.id = "c",
                .title = "t",
                .description = "d",
                .x = {.title = "x", .logarithmic = true},
                .y = {.title = "y", .logarithmic = true}};
  chart.series.push_back({.name = "a",
                          .points = {{.x = 0, .y = 1},
                                     {.x = nan, .y = 1},
                                     {.x = 1, .y = inf},
                                     {.x = 1, .y = -2},
                                     {.x = 1, .y = 1, .low = -1, .high = 2}}});
  const std::string svg = xy_chart(chart);
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
  EXPECT_THAT(svg, Not(HasSubstr("inf\"")));
  EXPECT_THAT(svg, Not(HasSubstr("whisker"))) << "an end that a logarithmic axis has no place for";
}

TEST(ReportChart, places_of_points_are_those_of_the_scale) {
  // One decade of x over the width between the axis and the margin; both points at its ends but for
  // the padding of 4 %.
  XyChart chart{.id = "c",
                .title = "t",
                .description = "d",
                .x = {.title = "x", .logarithmic = true},
                .y = {.title = "y"}};
  chart.series.push_back({.name = "a", .points = {{.x = 1, .y = 0}, {.x = 10, .y = 10}}});
  const Frame f = frame_of(chart);
  EXPECT_NEAR((f.x.at(std::sqrt(10.0)) - f.x.from) / (f.x.to - f.x.from), 0.5, 1e-12);
  EXPECT_NEAR((f.x.at(1) - f.x.from) / (f.x.to - f.x.from), 0.04 / 1.08, 1e-9);
  EXPECT_DOUBLE_EQ(f.y.at(0), f.y.from);
  EXPECT_DOUBLE_EQ(f.y.at(10), f.y.to);
}

TEST(ReportChart, bars_are_as_long_as_their_parts) {
  BarChart chart{.id = "b",
                 .title = "t",
                 .description = "d",
                 .parts = {"one", "two"},
                 .classes = {"compute", "wait"},
                 .bars = {{"a", {3, 1}}, {"b", {1, 1}}},
                 .unit = "ms"};
  const std::string html = bar_chart(chart);
  EXPECT_THAT(html, HasSubstr("one: 3 ms (75 %)"));
  EXPECT_THAT(html, HasSubstr("two: 1 ms (50 %)"));
  chart.bars = {{"a", {0, 0}}};
  EXPECT_EQ(bar_chart(chart), "") << "nothing to draw";
}

TEST(ReportChart, a_map_marks_ties_and_holes) {
  const MapChart chart{.id = "m",
                       .title = "t",
                       .description = "d",
                       .x_title = "ranks",
                       .y_title = "bytes",
                       .columns = {"2", "4"},
                       .rows = {"1 KiB"},
                       .fields = {{Field{.text = "ring", .tied = true}, Field{}}}};
  const std::string html = map_chart(chart);
  EXPECT_THAT(html, HasSubstr("≈ ring"));
  EXPECT_THAT(html, HasSubstr("field none"));
}

TEST(ReportChart, names_are_escaped) {
  XyChart chart{.id = "a\"b",
                .title = "<t>",
                .description = "<d>",
                .x = {.title = "<x>"},
                .y = {.title = "<y>"}};
  chart.series.push_back({.name = "<s>", .points = {{.x = 1, .y = 1, .tip = "<tip>"}}});
  const std::string html = xy_chart(chart);
  for (const char* raw : {"<t>", "<d>", "<x>", "<y>", "<s>", "<tip>", "a\"b"})
    EXPECT_THAT(html, Not(HasSubstr(raw)));
}

}  // namespace
}  // namespace shardlm::report
