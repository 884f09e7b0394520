// What stands in the cache after an append, element by element.
#include "backend/cpu/kv_append.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "tests/unit/backend/cpu_testing.h"

namespace shardlm {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr std::int64_t kDim = 33, kStride = 40, kBlock = 32;

/// 20 tokens from position 40 on: a part of a group, and the whole next one.
struct Appended {
  CpuKvStorage storage;
  std::vector<std::int32_t> blocks = {2, 1};
  HostMatrix k, v;

  Appended(DType type, const HostMatrix& keys, const HostMatrix& values)
      : storage(2, kDim, 3, kBlock, type), k(keys), v(values) {
    const auto append = [&](std::int64_t row, std::int64_t position, std::int64_t count) {
      append_tokens({storage.head(1, blocks), position, count, k.row(row).data(), v.row(row).data(),
                     kStride, kStride});
    };
    append(0, 44, 4);
    append(4, 48, 16);
  }
  const std::byte* part() const {
    const HeadCache head = storage.head(1, blocks);
    return head.part + head.blocks[1] * head.block_bytes;
  }
  template <class T>
  T key(std::int64_t row, std::int64_t d) const {
    const std::int64_t token = 44 + row - kBlock;
    return at<T>(0, (token / 16 * kDim + d) * 16 + token % 16);
  }
  template <class T>
  T value(std::int64_t row, std::int64_t d) const {
    const HeadCache head = storage.head(1, blocks);
    return at<T>(head.values_at, (44 + row - kBlock) * head.value_stride + d);
  }
  float scale(bool of_key, std::int64_t row) const {
    const HeadCache head = storage.head(1, blocks);
    return at<float>(of_key ? head.key_scales_at : head.value_scales_at, 44 + row - kBlock);
  }
  template <class T>
  T at(std::int64_t bytes, std::int64_t index) const {
    T found;
    std::memcpy(&found, part() + bytes + index * static_cast<std::int64_t>(sizeof(T)), sizeof(T));
    return found;
  }
};

class KvAppendTest : public OnEverySimdTarget {};
SHARDLM_ON_EVERY_SIMD_TARGET(KvAppendTest);

/// Numbers of all sizes, halfway cases and the special ones.
HostMatrix awkward(unsigned seed) {
  HostMatrix m = random_floats(20, kStride, seed);
  for (std::size_t i = 0; i < m.data.size(); ++i) {
    m.data[i] = std::ldexp(m.data[i], static_cast<int>(i * 7 % 60) - 40);
  }
  const float special[] = {0,         -0.0F,      kInf,         -kInf,      std::nanf(""),
                           65504,     65519.9F,   65520,        -65520,     0x1p-24F,
                           0x1p-25F,  0x1.8p-25F, 0x1.ffep-15F, 0x1.004p0F, 0x1.00cp0F,
                           0x1.01p0F, 0x1.03p0F,  3e38F};
  for (std::size_t i = 0; i < std::size(special); ++i) m.data[i * 41 + 3] = special[i];
  return m;
}

TEST_P(KvAppendTest, HalvesAreRoundedAsTheScalarCodeDoesIt) {
  for (const DType type : {DType::bf16, DType::f16}) {
    const Appended a(type, awkward(1), awkward(2));
    for (std::int64_t row = 0; row < 20; ++row) {
      for (std::int64_t d = 0; d < kDim; ++d) {
        for (const bool of_key : {true, false}) {
          const float from = (of_key ? a.k : a.v).at(row, d);
          const std::uint16_t found =
              of_key ? a.key<std::uint16_t>(row, d) : a.value<std::uint16_t>(row, d);
          std::uint16_t want = 0;
          from_float32(type, {&from, 1}, std::as_writable_bytes(std::span(&want, 1)));
          if (std::isnan(from)) {
            float back = 0;
            to_float32(type, std::as_bytes(std::span(&found, 1)), {&back, 1});
            EXPECT_TRUE(std::isnan(back));
          } else {
            EXPECT_EQ(found, want) << name(type) << " of " << from;
          }
        }
      }
    }
  }
}

TEST_P(KvAppendTest, BytesAreTheNearestMultiplesOfTheScale) {
  const Appended a(DType::i8, random_floats(20, kStride, 1), random_floats(20, kStride, 2));
  for (std::int64_t row = 0; row < 20; ++row) {
    for (const bool of_key : {true, false}) {
      const HostMatrix& from = of_key ? a.k : a.v;
      float top = 0;
      for (std::int64_t d = 0; d < kDim; ++d) top = std::max(top, std::abs(from.at(row, d)));
      const double scale = a.scale(of_key, row);
      EXPECT_EQ(a.scale(of_key, row), top / 127);
      for (std::int64_t d = 0; d < kDim; ++d) {
        const int found = of_key ? a.key<std::int8_t>(row, d) : a.value<std::int8_t>(row, d);
        EXPECT_NEAR(found * scale, from.at(row, d), scale * (0.5 + 127 * 4 * kRounding));
      }
    }
  }
}

TEST_P(KvAppendTest, ScalesOfRowsWithoutSizeAndOfRowsThatAreNotFinite) {
  HostMatrix k = random_floats(20, kStride, 1), v = random_floats(20, kStride, 2);
  for (std::int64_t d = 0; d < kStride; ++d) {
    k.at(2, d) = 0;
    k.at(7, d) = -1e-38F;
  }
  k.at(9, 32) = std::nanf("");
  v.at(3, 0) = -kInf;
  const Appended a(DType::i8, k, v);
  for (const std::int64_t row : {2, 7}) {
    EXPECT_EQ(a.scale(true, row), 0);
    for (std::int64_t d = 0; d < kDim; ++d) EXPECT_EQ(a.key<std::int8_t>(row, d), 0);
  }
  EXPECT_TRUE(std::isnan(a.scale(true, 9)));
  EXPECT_TRUE(std::isnan(a.scale(false, 3)));
  EXPECT_TRUE(std::isfinite(a.scale(true, 8)) && std::isfinite(a.scale(false, 9)));
}

}  // namespace
}  // namespace shardlm
