#include "backend/cpu/quantised_rows.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/unit/backend/cpu_testing.h"

namespace shardlm {
namespace {

class QuantisedRowsTest : public OnEverySimdTarget {};
SHARDLM_ON_EVERY_SIMD_TARGET(QuantisedRowsTest);

constexpr std::int64_t kBlock = QuantisedRows::kBlock;

QuantisedRows quantise(const HostMatrix& x) {
  QuantisedRows rows;
  rows.resize(x.rows, x.cols);
  rows.fill(x.data.data(), x.cols, 0, x.rows);
  return rows;
}

TEST_P(QuantisedRowsTest, FollowsTheFormulaAtOddLengths) {
  for (const std::int64_t length : {1, 31, 32, 33, 64, 65, 1733}) {
    const HostMatrix x = random_floats(3, length, static_cast<unsigned>(length));
    const QuantisedRows found = quantise(x);
    ASSERT_EQ(found.blocks(), (length + 31) / 32);
    for (std::int64_t r = 0; r < x.rows; ++r) {
      for (std::int64_t b = 0; b < found.blocks(); ++b) {
        const std::int64_t end = std::min(kBlock, length - b * kBlock);
        float most = 0;
        for (std::int64_t k = 0; k < end; ++k)
          most = std::max(most, std::abs(x.at(r, b * kBlock + k)));
        ASSERT_EQ(found.scales(r)[b], most * (1.0F / 127.0F));
        int sum = 0;
        for (std::int64_t k = 0; k < kBlock; ++k) {
          const float value = k < end ? x.at(r, b * kBlock + k) : 0.0F;
          const auto q = static_cast<int>(std::nearbyint(value * (127.0F / most)));
          ASSERT_EQ(found.values(r)[b * kBlock + k], q)
              << "row " << r << " input " << b * kBlock + k;
          sum += q;
        }
        ASSERT_EQ(found.sums(r)[b], sum);
      }
    }
  }
}

TEST_P(QuantisedRowsTest, TiesGoToTheEvenNumber) {
  HostMatrix x(1, 32);
  x.data = {127, 0.5F, 1.5F, 2.5F, -0.5F, -1.5F, -2.5F, 126.5F};
  x.data.resize(32);
  const QuantisedRows found = quantise(x);
  const int expected[] = {127, 0, 2, 2, 0, -2, -2, 126};
  for (int k = 0; k < 8; ++k) EXPECT_EQ(found.values(0)[k], expected[k]) << k;
  EXPECT_EQ(found.sums(0)[0], 127 + 2 + 2 - 2 - 2 + 126);
}

TEST_P(QuantisedRowsTest, NoFiniteNumberMakesTheScaleOfItsBlockNaN) {
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::quiet_NaN(),
        std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity()}) {
    HostMatrix x = random_floats(1, 96, 1);
    x.at(0, 45) = bad;
    const QuantisedRows found = quantise(x);
    EXPECT_TRUE(std::isfinite(found.scales(0)[0]));
    EXPECT_TRUE(std::isnan(found.scales(0)[1]));
    EXPECT_TRUE(std::isfinite(found.scales(0)[2]));
  }
}

TEST_P(QuantisedRowsTest, TheLargestAndTheSmallestNumbers) {
  HostMatrix x(1, 96);
  x.at(0, 0) = -std::numeric_limits<float>::max();
  x.at(0, 32) = 0x1p-100F;
  x.at(0, 64) = 0x1p-101F;  // counts as zero
  const QuantisedRows found = quantise(x);
  EXPECT_EQ(found.values(0)[0], -127);
  EXPECT_EQ(found.values(0)[32], 127);
  EXPECT_EQ(found.scales(0)[1], 0x1p-100F * (1.0F / 127.0F));
  EXPECT_EQ(found.values(0)[64], 0);
  EXPECT_EQ(found.scales(0)[2], 0.0F);
}

TEST(QuantisedRows, FillsOnlyTheRowsAskedForAndKeepsItsRoom) {
  const HostMatrix x = random_floats(4, 40, 1), zeros(4, 40);
  QuantisedRows rows;
  rows.resize(4, 40);
  rows.fill(zeros.data.data(), 40, 0, 4);
  rows.fill(x.data.data(), 40, 1, 3);
  EXPECT_EQ(rows.scales(0)[0], 0.0F);
  EXPECT_NE(rows.scales(1)[0], 0.0F);
  EXPECT_NE(rows.scales(2)[1], 0.0F);
  EXPECT_EQ(rows.scales(3)[1], 0.0F);
  const float* const room = rows.scales(0);
  rows.resize(2, 64);
  EXPECT_EQ(rows.scales(0), room);
  EXPECT_EQ(rows.blocks(), 2);
}

}  // namespace
}  // namespace shardlm
