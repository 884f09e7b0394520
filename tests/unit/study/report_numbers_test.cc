// Numbers, scales and statistics of the report. Expected values are worked by hand or come from
// tables of the binomial distribution.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "study/report/number_text.h"
#include "study/report/scale.h"
#include "study/report/summary.h"

namespace shardlm::report {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::Pointwise;

TEST(ReportNumberText, significant_digits) {
  EXPECT_EQ(number_text(54.12), "54.1");
  EXPECT_EQ(number_text(9.996), "10.0") << "rounding moves the point";
  EXPECT_EQ(number_text(0.0996, 2), "0.10");
  EXPECT_EQ(number_text(1234.5), "1,234");
  EXPECT_EQ(number_text(124439808, 12), "124,439,808");
  EXPECT_EQ(number_text(3), "3") << "a count has no decimals";
  EXPECT_EQ(number_text(-0.25), "-0.250");
  EXPECT_EQ(number_text(3.1e-6), "3.1×10⁻⁶");
  EXPECT_EQ(number_text(1e-5, 1), "10⁻⁵");
  EXPECT_EQ(number_text(1.5e12), "1.5×10¹²");
  EXPECT_EQ(number_text(0), "0");
  EXPECT_EQ(number_text(std::numeric_limits<double>::infinity()), "–");
  EXPECT_EQ(number_text(std::nan("")), "–");
  EXPECT_EQ(number_text(std::optional<double>()), "–");
}

TEST(ReportNumberText, units) {
  EXPECT_EQ(bytes_text(64), "64 B");
  EXPECT_EQ(bytes_text(3072), "3 KiB");
  EXPECT_EQ(bytes_text(1048576), "1 MiB");
  EXPECT_EQ(time_text(1.3e-6), "1.30 µs");
  EXPECT_EQ(time_text(0.0185), "18.5 ms");
  EXPECT_EQ(time_text(2.4), "2.40 s");
  EXPECT_EQ(percent_text(0.93), "93 %");
  EXPECT_EQ(percent_text(0.0042), "0.4 %");
  EXPECT_EQ(percent_text(0.0), "0 %");
  EXPECT_EQ(signed_percent_text(-0.062), "−6.2 %");
  EXPECT_EQ(count_text(1, "rank"), "1 rank");
  EXPECT_EQ(count_text(2, "launch"), "2 launches");
  EXPECT_EQ(list_text({"a", "b", "c"}), "a, b and c");
}

TEST(ReportScale, nice_steps_are_1_2_5) {
  EXPECT_DOUBLE_EQ(nice_step(0, 10, 5), 2);
  EXPECT_DOUBLE_EQ(nice_step(0, 1, 5), 0.2);
  EXPECT_DOUBLE_EQ(nice_step(0, 47, 5), 10);
  EXPECT_DOUBLE_EQ(nice_step(0, 260, 5), 50);
  EXPECT_DOUBLE_EQ(nice_step(0, 7e-6, 7), 1e-6);
}

TEST(ReportScale, linear_ticks_are_multiples_inside) {
  EXPECT_THAT(linear_ticks(0, 10, 5), ElementsAre(0, 2, 4, 6, 8, 10));
  EXPECT_THAT(linear_ticks(0.31, 0.92, 6),
              Pointwise(DoubleNear(1e-12), {0.4, 0.5, 0.6, 0.7, 0.8, 0.9}));
  EXPECT_TRUE(linear_ticks(1, 1, 5).empty());
}

std::vector<std::string> labels_of(const std::vector<Tick>& ticks) {
  std::vector<std::string> labels;
  for (const Tick& t : ticks) {
    if (!t.label.empty()) labels.push_back(t.label);
  }
  return labels;
}

TEST(ReportScale, logarithmic_ticks_by_the_number_of_decades) {
  EXPECT_THAT(labels_of(log_ticks(1, 1000, 5)), ElementsAre("1", "10", "100", "1,000"));
  EXPECT_THAT(labels_of(log_ticks(20, 500, 5)), ElementsAre("20", "50", "100", "200", "500"));
  EXPECT_THAT(labels_of(log_ticks(540, 580, 4)), ElementsAre("540", "550", "560", "570", "580"));
  EXPECT_THAT(labels_of(log_ticks(1, 1e10, 5)),
              ElementsAre("1", "100", "10,000", "10⁶", "10⁸", "10¹⁰"));
  EXPECT_EQ(log_ticks(1, 1000, 5).size(), 3u * 9 + 1) << "2 to 9 between powers of ten";
}

TEST(ReportScale, places) {
  const Scale linear = linear_scale(0, 9.3, 100, 200);
  EXPECT_DOUBLE_EQ(linear.high, 10);
  EXPECT_DOUBLE_EQ(linear.at(5), 150);
  Scale log = log_scale(1, 100, 300, 0);
  log.low = 1;
  log.high = 100;
  EXPECT_DOUBLE_EQ(log.at(10), 150) << "upwards, as a vertical axis";
}

TEST(ReportScale, values_that_are_none_give_a_scale_all_the_same) {
  const double inf = std::numeric_limits<double>::infinity();
  for (const auto& [low, high] :
       {std::pair{inf, -inf}, {-1.0, -2.0}, {0.0, 0.0}, {5.0, 5.0}, {1e308, 1e308}, {-5.0, 3.0}}) {
    for (const Scale& s : {linear_scale(low, high, 0, 100), log_scale(low, high, 0, 100)}) {
      EXPECT_TRUE(std::isfinite(s.at(s.high))) << low << " " << high;
      EXPECT_LT(s.low, s.high);
      EXPECT_LT(s.ticks.size(), 110u);
    }
  }
}

TEST(ReportSummary, places_of_the_interval_of_the_median) {
  // The largest k with P(B(n, 1/2) < k) <= 0.025, from a table: 6: 1st and 6th (96.9 %), 9: 2nd and
  // 8th (96.1 %), 10: 2nd and 9th, 20: 6th and 15th, 100: 40th and 61st.
  for (std::size_t n = 0; n < 6; ++n) EXPECT_FALSE(median_interval(n)) << n;
  using Places = std::pair<std::size_t, std::size_t>;
  EXPECT_EQ(median_interval(6), Places(0, 5));
  EXPECT_EQ(median_interval(8), Places(0, 7));
  EXPECT_EQ(median_interval(9), Places(1, 7));
  EXPECT_EQ(median_interval(10), Places(1, 8));
  EXPECT_EQ(median_interval(20), Places(5, 14));
  EXPECT_EQ(median_interval(100), Places(39, 60));
}

TEST(ReportSummary, what_the_ends_are_depends_on_the_number_of_launches) {
  const Summary one = summarise({7});
  EXPECT_EQ(one.spread, Spread::none);
  EXPECT_FALSE(one.low);
  const Summary five = summarise({3, 1, 2, 5, 4});
  EXPECT_EQ(five.spread, Spread::range);
  EXPECT_DOUBLE_EQ(five.middle, 3);
  EXPECT_EQ(five.low, 1);
  EXPECT_EQ(five.high, 5);
  EXPECT_EQ(spread_text(five),
            "least and largest of 5 launches (too few for a confidence interval)");
  const Summary nine = summarise({9, 8, 7, 6, 5, 4, 3, 2, 1});
  EXPECT_EQ(nine.spread, Spread::interval);
  EXPECT_EQ(nine.low, 2);
  EXPECT_EQ(nine.high, 8);
  EXPECT_EQ(summarise({}).launches, 0u);
}

TEST(ReportSummary, verdicts_by_overlap) {
  const Summary low = summarise({1, 2, 3}), high = summarise({4, 5, 6}),
                middle = summarise({3, 4, 5});
  EXPECT_EQ(compare(high, low), Verdict::higher);
  EXPECT_EQ(compare(low, high), Verdict::lower);
  EXPECT_EQ(compare(middle, high), Verdict::no_difference);
  EXPECT_EQ(compare(low, middle), Verdict::no_difference) << "they touch";
  EXPECT_EQ(compare(low, summarise({9})), Verdict::unknown);
}

TEST(ReportSummary, a_ratio_has_the_widest_ends) {
  const Summary r = ratio(summarise({10, 12, 14}), summarise({2, 3, 4}));
  EXPECT_DOUBLE_EQ(r.middle, 4);
  EXPECT_DOUBLE_EQ(*r.low, 2.5);
  EXPECT_DOUBLE_EQ(*r.high, 7);
}

}  // namespace
}  // namespace shardlm::report
