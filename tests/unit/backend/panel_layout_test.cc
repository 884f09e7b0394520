#include "backend/cpu/panel_layout.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "tests/unit/backend/cpu_testing.h"

namespace shardlm {
namespace {

constexpr std::int64_t kOutputs = PanelLayout::kOutputs, kInputs = PanelLayout::kInputs;

class PanelLayoutTest : public OnEverySimdTarget {};
SHARDLM_ON_EVERY_SIMD_TARGET(PanelLayoutTest);

std::vector<std::byte> pack(DType dtype, const HostMatrix& tile, std::int64_t inputs = kInputs) {
  std::vector<std::byte> packed(PanelLayout{.dtype = dtype}.tile_bytes());
  pack_tile(dtype, tile.data.data(), inputs, packed.data());
  return packed;
}

HostMatrix unpack(DType dtype, const std::vector<std::byte>& packed,
                  std::int64_t inputs = kInputs) {
  HostMatrix tile(kInputs, kOutputs);
  unpack_tile(dtype, packed.data(), inputs, tile.data.data());
  return tile;
}

float half(float value) {
  std::uint16_t bits = 0;
  from_float32(DType::f16, {&value, 1}, std::as_writable_bytes(std::span(&bits, 1)));
  to_float32(DType::f16, std::as_bytes(std::span(&bits, 1)), {&value, 1});
  return value;
}

/// The sum of the squared errors of the best whole numbers for this scale.
double squared_error(const HostMatrix& tile, std::int64_t j, double scale, double least,
                     double most) {
  double sum = 0;
  for (std::int64_t k = 0; k < kInputs; ++k) {
    const double value = tile.at(k, j);
    const double code =
        scale == 0 ? 0 : std::min(std::max(std::nearbyint(value / scale), least), most);
    sum += (code * scale - value) * (code * scale - value);
  }
  return sum;
}

TEST_P(PanelLayoutTest, FloatsOfEveryBitPattern) {
  // All upper halves of a float32, with lower halves that make ties and values beside them.
  for (const DType dtype : {DType::f16, DType::bf16, DType::f32}) {
    for (std::uint32_t upper = 0; upper < 0x10000; upper += kInputs * kOutputs / 4) {
      HostMatrix tile(kInputs, kOutputs);
      for (std::uint32_t i = 0; i < kInputs * kOutputs; ++i) {
        constexpr std::uint32_t kLower[] = {0x0000, 0x1000, 0x8000, 0x8001};
        tile.data[i] = std::bit_cast<float>((upper + i / 4) << 16 | kLower[i % 4]);
      }
      std::vector<float> expected(tile.data.size());
      std::vector<std::byte> narrow(tile.data.size() * bits(dtype) / 8);
      from_float32(dtype, tile.data, narrow);
      to_float32(dtype, narrow, expected);
      ASSERT_TRUE(same_bits(unpack(dtype, pack(dtype, tile)).data, expected))
          << name(dtype) << " from " << upper << " on";
    }
  }
}

TEST_P(PanelLayoutTest, WhereAValueLies) {
  // Whole numbers up to 127 that int8 and the floats hold exactly, one at 127 in each column.
  HostMatrix tile(kInputs, kOutputs);
  for (std::int64_t k = 0; k < kInputs; ++k) {
    for (std::int64_t j = 0; j < kOutputs; ++j) {
      tile.at(k, j) = k == j % kInputs ? -127.0F : static_cast<float>((7 * k + 3 * j) % 127);
    }
  }
  const auto f32 = pack(DType::f32, tile), bf16 = pack(DType::bf16, tile);
  const auto q8 = pack(DType::q8, tile);
  HostMatrix small = tile;  // -8 … 7
  for (float& value : small.data) value = value < 0 ? -8 : std::fmod(value, 8.0F);
  const auto q4 = pack(DType::q4, small);
  for (std::int64_t k = 0; k < kInputs; ++k) {
    for (std::int64_t j = 0; j < kOutputs; ++j) {
      float value;
      std::memcpy(&value, f32.data() + (k * 64 + j) * 4, 4);
      ASSERT_EQ(value, tile.at(k, j));
      std::uint16_t word;
      std::memcpy(&word, bf16.data() + ((k / 2 * 64 + j) * 2 + k % 2) * 2, 2);
      ASSERT_EQ(std::bit_cast<float>(std::uint32_t{word} << 16), tile.at(k, j));
      const auto byte =
          static_cast<int>(q8[static_cast<std::size_t>(128 + (k / 4 * 64 + j) * 4 + k % 4)]);
      ASSERT_EQ(byte - 128, static_cast<int>(tile.at(k, j)));
      const auto both =
          static_cast<int>(q4[static_cast<std::size_t>(128 + (k / 8 * 64 + j) * 4 + k % 4)]);
      ASSERT_EQ((k % 8 < 4 ? both & 15 : both >> 4) - 8, static_cast<int>(small.at(k, j)));
    }
  }
}

TEST_P(PanelLayoutTest, Int8IsTheNearestMultipleOfTheScale) {
  HostMatrix tile = random_floats(kInputs, kOutputs, 1);
  for (std::int64_t k = 0; k < kInputs; ++k) {
    tile.at(k, 5) = 0;       // no divisor
    tile.at(k, 6) *= 1e-5F;  // a subnormal scale
    tile.at(k, 7) *= 1e4F;
  }
  const auto packed = pack(DType::q8, tile);
  const HostMatrix found = unpack(DType::q8, packed);
  for (std::int64_t j = 0; j < kOutputs; ++j) {
    float most = 0;
    for (std::int64_t k = 0; k < kInputs; ++k) most = std::max(most, std::abs(tile.at(k, j)));
    const float scale = half(most / 127);
    for (std::int64_t k = 0; k < kInputs; ++k) {
      const float code = scale == 0 ? 0 : std::nearbyint(tile.at(k, j) / scale);
      ASSERT_EQ(found.at(k, j), scale * std::min(127.0F, std::max(-127.0F, code))) << k << " " << j;
    }
  }
}

TEST_P(PanelLayoutTest, Int4HasTheBestOfItsScales) {
  HostMatrix tile = random_floats(kInputs, kOutputs, 1);
  for (std::int64_t k = 0; k < kInputs; ++k) {
    tile.at(k, 5) = 0;
    for (std::int64_t j = 32; j < kOutputs; ++j) tile.at(k, j) *= tile.at(k, j) * tile.at(k, j);
  }
  const auto packed = pack(DType::q4, tile);
  const HostMatrix found = unpack(DType::q4, packed);
  int chosen[4] = {};
  for (std::int64_t j = 0; j < kOutputs; ++j) {
    float extreme = 0;
    for (std::int64_t k = 0; k < kInputs; ++k) {
      if (std::abs(tile.at(k, j)) > std::abs(extreme)) extreme = tile.at(k, j);
    }
    std::uint16_t bits = 0;
    float scale = 0;
    std::memcpy(&bits, packed.data() + j * 2, 2);
    to_float32(DType::f16, std::as_bytes(std::span(&bits, 1)), {&scale, 1});
    double best = 1e30, error = 1e30;
    const float divisors[] = {-8, -7, -7.5F, -8.5F};
    for (int i = 0; i < 4; ++i) {
      const float candidate = extreme / divisors[i];
      const double here = squared_error(tile, j, candidate, -8, 7);
      best = std::min(best, here);
      if (half(candidate) == scale && here < error) error = here, ++chosen[i];
    }
    EXPECT_LE(error, best * 1.00001) << "output " << j;  // its sums are float32
    for (std::int64_t k = 0; k < kInputs; ++k) {
      const float code = scale == 0 ? 0 : std::nearbyint(tile.at(k, j) / scale);
      ASSERT_EQ(found.at(k, j), scale * std::min(7.0F, std::max(-8.0F, code))) << k << " " << j;
    }
  }
  for (const int times : chosen) EXPECT_GT(times, 0);
}

TEST_P(PanelLayoutTest, NoFiniteNumberMakesItsBlockNaN) {
  for (const DType dtype : {DType::q8, DType::q4}) {
    HostMatrix tile = random_floats(kInputs, kOutputs, 1);
    tile.at(3, 10) = std::numeric_limits<float>::quiet_NaN();
    tile.at(9, 11) = -std::numeric_limits<float>::infinity();
    tile.at(9, 12) = 0x1p40F;  // the scale is no float16
    const HostMatrix found = unpack(dtype, pack(dtype, tile));
    for (std::int64_t j = 0; j < kOutputs; ++j) {
      EXPECT_EQ(std::isfinite(found.at(0, j)), j < 10 || j > 12) << j;
      if (j == 10 || j == 11) {
        EXPECT_TRUE(std::isnan(found.at(31, j)));
      }
    }
  }
}

TEST_P(PanelLayoutTest, TheSameBytesAsOnTheBestInstructionSet) {
  HostMatrix tile = random_floats(kInputs, kOutputs, 3);
  for (const DType dtype : {DType::f16, DType::bf16, DType::q8, DType::q4}) {
    const auto here = pack(dtype, tile);
    const ForcedSimdTarget best(cpu_simd_targets().front());
    EXPECT_EQ(here, pack(dtype, tile)) << name(dtype);
  }
}

TEST_P(PanelLayoutTest, OneOutputIsAColumnOfItsTiles) {
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16, DType::q8, DType::q4}) {
    const PanelLayout layout{.dtype = dtype, .in = 77};
    std::vector<std::byte> panel(layout.panel_bytes() + layout.tile_bytes());
    HostMatrix all(0, kOutputs);
    for (std::int64_t t = 0; t < layout.tiles(); ++t) {
      const std::int64_t inputs = std::min(kInputs, layout.in - t * kInputs);
      HostMatrix tile = random_floats(kInputs, kOutputs, static_cast<unsigned>(t));
      std::fill(tile.data.begin() + inputs * kOutputs, tile.data.end(), 0.0F);
      auto* to = panel.data() + t * static_cast<std::int64_t>(layout.tile_bytes());
      pack_tile(dtype, tile.data.data(), inputs, to);
      unpack_tile(dtype, to, inputs, tile.data.data());
      all.data.insert(all.data.end(), tile.data.begin(), tile.data.begin() + inputs * kOutputs);
    }
    for (const std::int64_t j : {0, 17, 63}) {
      std::vector<float> found(static_cast<std::size_t>(layout.in));
      unpack_output(layout, panel.data(), j, found.data());
      for (std::int64_t k = 0; k < layout.in; ++k) {
        ASSERT_EQ(found[static_cast<std::size_t>(k)], all.at(k, j)) << name(dtype) << " " << k;
      }
    }
  }
}

}  // namespace
}  // namespace shardlm
