// The emulated tiles against products worked out by hand from the definition of the instructions:
//   TDPBF16PS  for each row and column: temp1.even += a.even * b.even, temp1.odd += a.odd * b.odd
//              over k, from zero; then sum += (temp1.even + temp1.odd)
//   TDPBSSD    sum += four products of signed bytes
#include "tests/unit/backend/amx_emulation.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <vector>

#include "base/error.h"

namespace shardlm {
namespace {

std::uint16_t bfloat(float x) {
  return static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(x) >> 16);
}

/// A row [1][2 k] times a column, in bf16; tile 0 starts at `sum`.
float product_of_bits(float sum, const std::vector<std::uint16_t>& a,
                      const std::vector<std::uint16_t>& b) {
  const auto pairs = static_cast<std::uint8_t>(a.size() / 2);
  EmulatedTiles tiles(
      {{{1, 4}, {1, static_cast<std::uint16_t>(4 * pairs)}, {pairs, 4}, {}, {}, {}, {}, {}}});
  tiles.load<0>(&sum, 4);
  tiles.load<1>(a.data(), 64);
  tiles.load<2>(b.data(), 4);
  tiles.dot_bf16<0, 1, 2>();
  tiles.store<0>(&sum, 4);
  return sum;
}

float product(float sum, const std::vector<float>& a, const std::vector<float>& b) {
  std::vector<std::uint16_t> x, y;
  for (const float v : a) x.push_back(bfloat(v));
  for (const float v : b) y.push_back(bfloat(v));
  return product_of_bits(sum, x, y);
}

TEST(AmxEmulation, SumsTheProductsOfPairs) {
  EXPECT_EQ(product(0.5F, {1, 2, 3, 4}, {5, 6, 7, 8}), 0.5F + 5 + 12 + 21 + 32);
}

TEST(AmxEmulation, EvenAndOddInputsAreTwoChains) {
  // Even: 2^24 + 1 is 2^24, the tie to even. Odd: 1 + 1. One chain over all would give 2^24.
  EXPECT_EQ(product(0, {0x1p24F, 1, 1, 1}, {1, 1, 1, 1}), 0x1p24F + 2);
}

TEST(AmxEmulation, TheTileIsAddedToTheSumLast) {
  // 2^24 + (1 + 1); adding one at a time would stay at 2^24.
  EXPECT_EQ(product(0x1p24F, {1, 1}, {1, 1}), 0x1p24F + 2);
}

TEST(AmxEmulation, DenormalsAreZerosComingInAndGoingOut) {
  const std::vector<std::uint16_t> denormal{0x0001, 0}, large{bfloat(0x1p100F), 0};
  EXPECT_EQ(product_of_bits(0, denormal, large), 0.0F);
  EXPECT_EQ(product(0, {0x1p-70F, 0}, {0x1p-70F, 0}), 0.0F);
  EXPECT_EQ(product(0, {0x1p-70F, 0}, {-0x1p-56F, 0}), -0x1p-126F);
  EXPECT_EQ(product(0x1p-127F, {1, 0}, {0, 0}), 0.0F);
  EXPECT_TRUE(std::isnan(product(0, {INFINITY, 0}, {0, 0})));
}

TEST(AmxEmulation, RowsAndColumnsOfATile) {
  // a [2][2 pairs], b [2 pairs][3]: a product of 2 x 4 and 4 x 3, its rows 16 bytes apart.
  EmulatedTiles tiles({{{2, 12}, {2, 8}, {2, 12}, {}, {}, {}, {}, {}}});
  const float a[2][4] = {{1, 2, 3, 4}, {-1, 0, 2, 5}};
  const float b[4][3] = {{1, 2, 3}, {4, 5, 6}, {7, 8, 9}, {-1, -2, -3}};
  std::uint16_t x[2][4], y[2][3][2];
  for (int k = 0; k < 4; ++k) {
    for (int m = 0; m < 2; ++m) x[m][k] = bfloat(a[m][k]);
    for (int n = 0; n < 3; ++n) y[k / 2][n][k % 2] = bfloat(b[k][n]);
  }
  float sums[2][4] = {{0, 0, 0, 9}, {0, 0, 0, 9}};
  tiles.zero<0>();
  tiles.load<1>(x, 8);
  tiles.load<2>(y, 12);
  tiles.dot_bf16<0, 1, 2>();
  tiles.store<0>(sums, 16);
  const float expected[2][4] = {{26, 28, 30, 9}, {8, 4, 0, 9}};
  for (int m = 0; m < 2; ++m) {
    for (int n = 0; n < 4; ++n) EXPECT_EQ(sums[m][n], expected[m][n]) << m << " " << n;
  }
}

TEST(AmxEmulation, SignedBytes) {
  EmulatedTiles tiles({{{1, 8}, {1, 8}, {2, 8}, {}, {}, {}, {}, {}}});
  const std::int8_t a[8] = {-128, 127, 1, -1, 2, 0, 0, 3};
  const std::int8_t b[2][8] = {{-128, 127, 5, 6, 1, 1, 1, 1}, {10, 99, 99, -7, 1, 2, 3, 4}};
  std::int32_t sums[2] = {1000, -1000};
  tiles.load<0>(sums, 8);
  tiles.load<1>(a, 8);
  tiles.load<2>(b, 8);
  tiles.dot_int8<0, 1, 2>();
  tiles.store<0>(sums, 8);
  EXPECT_EQ(sums[0], 1000 + 16384 + 16129 + 5 - 6 + 20 - 21);
  EXPECT_EQ(sums[1], -1000 - 128 + 127 + 1 - 1 + 2 + 12);
}

TEST(AmxEmulation, WhatTheProcessorRefusesThrows) {
  EmulatedTiles tiles({{{16, 64}, {16, 32}, {8, 64}, {16, 64}, {}, {}, {}, {}}});
  EXPECT_NO_THROW((tiles.dot_int8<0, 1, 2>()));
  EXPECT_THROW((tiles.dot_int8<0, 2, 1>()), Error);  // shapes
  EXPECT_THROW((tiles.dot_int8<0, 1, 3>()), Error);
  EXPECT_THROW((tiles.dot_int8<0, 0, 3>()), Error);  // the same tile twice
  EXPECT_THROW(tiles.zero<5>(), Error);              // not configured
  EXPECT_THROW(EmulatedTiles(AmxShapes{{{17, 64}}}), Error);
  EXPECT_THROW(EmulatedTiles(AmxShapes{{{1, 0}}}), Error);
  tiles.release();
  EXPECT_THROW(tiles.zero<0>(), Error);
}

}  // namespace
}  // namespace shardlm
