// Comparison within a tolerance that is derived from the data, not chosen until a test passes.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <string>

namespace shardlm {

/// Results against the truth rounded to float32. A value that came through `depth` roundings
/// (chained sums) of terms as large as the tensor's largest magnitude carries an error of about
/// sqrt(depth) * epsilon * scale if roundings are independent; four times that is allowed.
inline void expect_near(std::span<const float> actual, std::span<const float> truth, double depth,
                        const std::string& what,
                        double epsilon = std::numeric_limits<float>::epsilon()) {
  ASSERT_EQ(actual.size(), truth.size()) << what;
  double scale = 0;
  for (const float x : truth) scale = std::max(scale, std::abs(static_cast<double>(x)));
  const double tolerance = 4 * std::sqrt(depth) * epsilon * scale;
  double worst = 0;
  std::size_t at = 0;
  for (std::size_t i = 0; i < actual.size(); ++i) {
    const double gap = std::abs(static_cast<double>(actual[i]) - truth[i]);
    if (!(gap <= worst)) {
      worst = gap;
      at = i;
    }
  }
  EXPECT_LE(worst, tolerance) << what << ": element " << at << " of scale " << scale << ": "
                              << actual[at] << " for " << truth[at];
}

}  // namespace shardlm
