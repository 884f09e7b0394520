// The kernels of AMX over emulated tiles.
#include <gtest/gtest.h>

#include <limits>

#include "backend/cpu/cpu_features.h"
#include "tests/unit/backend/amx_testing.h"

namespace shardlm {
namespace {

constexpr CpuFeatures kNoAmx{.avx512_vnni = true};

std::vector<Shape> odd_shapes() {
  std::vector<Shape> shapes;
  for (const std::int64_t in : {1, 31, 32, 33, 64, 65}) {
    for (const std::int64_t out : {1, 63, 64, 65}) shapes.push_back({33, in, out});
  }
  for (const std::int64_t rows : {16, 17, 31, 47}) shapes.push_back({rows, 65, 65});
  shapes.push_back({128, 33, 33});
  shapes.push_back({17, 1733, 1});  // several slices
  shapes.push_back({40, 160, 200});
  return shapes;
}

TEST(AmxRows, RoundsAsDtypeDoesAndFillsUpWithZeros) {
  HostMatrix x = random_floats(18, 45, 1);
  const float special[] = {0.0F,        -0.0F,       INFINITY,       -INFINITY,
                           1.00390625F, 1.01171875F, -1.00390625F,   0x1p-130F,
                           3.4e38F,     0x1.01p0F,   -0x1.fffffep9F, 0x1.0080002p0F};
  std::ranges::copy(special, x.data.begin() + 40);
  AmxRows rows;
  rows.resize(40, 100);  // larger first: what is left over must not show
  rows.fill(random_floats(40, 100, 2).data.data(), 100, 0, rows.row_tiles());
  rows.resize(18, 45);
  rows.fill(x.data.data(), 45, 1, 2);
  rows.fill(x.data.data(), 45, 0, 1);
  ASSERT_EQ(rows.row_tiles(), 2);
  ASSERT_EQ(rows.input_tiles(), 2);
  std::vector<std::uint16_t> expected(x.data.size());
  from_float32(DType::bf16, x.data, std::as_writable_bytes(std::span(expected)));
  for (std::int64_t r = 0; r < 32; ++r) {
    for (std::int64_t k = 0; k < 64; ++k) {
      const std::uint16_t found = rows.tiles(r / 16)[(k / 32 * 16 + r % 16) * 32 + k % 32];
      const bool inside = r < 18 && k < 45;
      ASSERT_EQ(found, inside ? expected[static_cast<std::size_t>(r * 45 + k)] : 0)
          << r << " " << k;
    }
  }
  HostMatrix nan(1, 1);
  nan.at(0, 0) = std::numeric_limits<float>::quiet_NaN();
  rows.resize(1, 1);
  rows.fill(nan.data.data(), 1, 0, 1);
  EXPECT_GT(rows.tiles(0)[0] & 0x7FFF, 0x7F80);
}

TEST(AmxMatmul, Bf16IsTheProductOfRoundedNumbersAtOddShapes) {
  std::vector<Shape> shapes = odd_shapes();
  shapes.push_back({1, 33, 65});
  shapes.push_back({15, 70, 64});
  for (const auto [rows, in, out] : shapes) {
    const HostMatrix x = random_floats(rows, in, 1), w = random_floats(in, out, 2);
    const HostMatrix bias = random_floats(1, out, 3);
    expect_products(x, w, bias, emulated_bf16(x, packed(w, DType::bf16), bias));
  }
}

TEST(AmxMatmul, Bf16OfNoInputsIsTheBias) {
  const HostMatrix bias = random_floats(1, 70, 1);
  const HostMatrix found =
      emulated_bf16(HostMatrix(17, 0), packed(HostMatrix(0, 70), DType::bf16), bias);
  for (std::int64_t t = 0; t < 17; ++t) EXPECT_TRUE(same_bits(found.row(t), bias.row(0)));
}

TEST(AmxMatmul, ABf16RowDependsOnNoOther) {
  const HostMatrix x = random_floats(70, 100, 1), bias = random_floats(1, 96, 3);
  const PackedMatrix w = packed(random_floats(100, 96, 2), DType::bf16);
  const HostMatrix whole = emulated_bf16(x, w, bias);
  for (const std::int64_t first : {0, 13, 53}) {
    for (const std::int64_t rows : {1, 16, 17}) {
      const HostMatrix found = emulated_bf16(some_rows(x, first, rows), w, bias);
      ASSERT_TRUE(same_bits(found.data, some_rows(whole, first, rows).data))
          << rows << " rows from " << first;
    }
  }
}

TEST(AmxMatmul, SomeBf16ColumnsAndRowsAreThoseOfThePanel) {
  const HostMatrix x = random_floats(40, 70, 1), init = random_floats(1, 64, 3);
  const PackedMatrix w = packed(random_floats(70, 64, 2), DType::bf16);
  const HostMatrix whole = emulated_bf16(x, w, init);
  AmxRows rows;
  rows.resize(40, 70);
  rows.fill(x.data.data(), 70, 0, rows.row_tiles());
  HostMatrix parts(40, 64);
  for (const std::int64_t column : {0, 32}) {
    for (const std::int64_t row : {0, 16}) {
      amx::multiply_bf16<EmulatedTiles>({.x = &rows,
                                         .first_row = row,
                                         .rows = row == 0 ? 16 : 24,
                                         .panel = w.panel(0),
                                         .first_column = column,
                                         .columns = 32,
                                         .init = init.data.data() + column,
                                         .out = &parts.at(row, column),
                                         .out_stride = 64});
    }
  }
  EXPECT_TRUE(same_bits(parts.data, whole.data));
}

TEST(AmxMatmul, Bf16NoFiniteNumberReachesItsRowAndColumnOnly) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  HostMatrix x = random_floats(33, 33, 1), w = random_floats(33, 130, 2);
  x.at(3, 32) = nan;
  x.at(20, 0) = std::numeric_limits<float>::infinity();
  w.at(32, 5) = nan;
  // What lies behind the end of the first panel, whose last tile of inputs is not full.
  for (std::int64_t j = 64; j < 130; ++j) w.at(0, j) = nan;
  const HostMatrix found = emulated_bf16(x, packed(w, DType::bf16), HostMatrix(1, 130));
  for (std::int64_t t = 0; t < 33; ++t) {
    for (std::int64_t j = 0; j < 130; ++j) {
      const bool finite = t != 3 && t != 20 && j != 5 && j < 64;
      ASSERT_EQ(std::isfinite(found.at(t, j)), finite) << t << " " << j;
    }
  }
}

class AmxBytesTest : public OnEverySimdTarget {};
SHARDLM_ON_EVERY_SIMD_TARGET(AmxBytesTest);

TEST_P(AmxBytesTest, HasTheBitsOfTheOtherKernelsAtOddShapes) {
  const ForcedCpuFeatures forced(kNoAmx);
  for (const DType dtype : {DType::q8, DType::q4}) {
    for (const auto [rows, in, out] : odd_shapes()) {
      const HostMatrix x = random_floats(rows, in, 1), bias = random_floats(1, out, 3);
      const PackedMatrix w = packed(random_floats(in, out, 2), dtype);
      const HostMatrix expected = multiply_bytes(x, w, bias, multiply_panel_quantised);
      const HostMatrix found = multiply_bytes(x, w, bias, amx::multiply_int8<EmulatedTiles>);
      ASSERT_TRUE(same_bits(found.data, expected.data))
          << name(dtype) << ", " << rows << " rows, " << in << " x " << out;
    }
  }
}

TEST_P(AmxBytesTest, SomeRowsAndColumnsAreThoseOfThePanel) {
  const ForcedCpuFeatures forced(kNoAmx);
  const HostMatrix x = random_floats(50, 1100, 1), init = random_floats(1, 64, 3);
  QuantisedRows rows;
  rows.resize(50, 1100);
  rows.fill(x.data.data(), 1100, 0, 50);
  for (const DType dtype : {DType::q8, DType::q4}) {
    const PackedMatrix w = packed(random_floats(1100, 64, 2), dtype);
    const HostMatrix whole = multiply_bytes(x, w, init, multiply_panel_quantised);
    HostMatrix parts(50, 64);
    for (const std::int64_t column : {0, 32}) {
      for (const std::int64_t row : {0, 17}) {
        amx::multiply_int8<EmulatedTiles>({.x = &rows,
                                           .first_row = row,
                                           .rows = row == 0 ? 17 : 33,
                                           .dtype = dtype,
                                           .panel = w.panel(0),
                                           .first_column = column,
                                           .columns = 32,
                                           .init = init.data.data() + column,
                                           .out = &parts.at(row, column),
                                           .out_stride = 64});
      }
    }
    EXPECT_TRUE(same_bits(parts.data, whole.data)) << name(dtype);
  }
}

}  // namespace
}  // namespace shardlm
