#include "comm/wire_codec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "base/error.h"
#include "tests/support/comm_checks.h"

namespace shardlm {
namespace {

using testing::HasSubstr;
using Bytes = std::vector<std::byte>;

template <class T>
Bytes bytes_of(const std::vector<T>& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return {bytes.begin(), bytes.end()};
}

TEST(WireCodec, SizesOfMessages) {
  struct Case {
    WireFormat wire;
    std::size_t block, one, of_33;
  };
  for (const Case& c : std::vector<Case>{{WireFormat::f32, 1, 4, 132},
                                         {WireFormat::bf16, 1, 2, 66},
                                         {WireFormat::f16, 1, 2, 66},
                                         {WireFormat::int8, 32, 5, 41}}) {
    const WireCodec& codec = wire_codec(SumType::f32, c.wire);
    EXPECT_EQ(codec.held(), SumType::f32);
    EXPECT_EQ(codec.block(), c.block) << name(c.wire);
    EXPECT_EQ(codec.wire_bytes(0), 0U) << name(c.wire);
    EXPECT_EQ(codec.wire_bytes(1), c.one) << name(c.wire);
    EXPECT_EQ(codec.wire_bytes(33), c.of_33) << name(c.wire);
    EXPECT_EQ(codec.plain(), c.wire == WireFormat::f32) << name(c.wire);
  }
  const WireCodec& fixed = wire_codec(SumType::fixed64, WireFormat::f32);
  EXPECT_EQ(fixed.held(), SumType::fixed64);
  EXPECT_EQ(fixed.wire_bytes(3), 24U);
  EXPECT_TRUE(fixed.plain());
}

TEST(WireCodec, PlainOnesCopyAndAdd) {
  const std::vector<float> x = {1.5F, -0.0F, 3}, y = {0.5F, 0.0F, -1};
  const WireCodec& floats = wire_codec(SumType::f32, WireFormat::f32);
  Bytes wire(12), held = bytes_of(y);
  floats.encode(bytes_of(x).data(), 3, wire.data());
  EXPECT_EQ(wire, bytes_of(x));
  floats.add(wire.data(), 3, held.data());
  EXPECT_EQ(held, bytes_of(std::vector<float>{2, 0, 2}));
  floats.decode(wire.data(), 3, held.data());
  EXPECT_EQ(held, bytes_of(x));

  const std::vector<std::int64_t> a = {1LL << 62, -5}, b = {1LL << 61, 3};
  Bytes sum = bytes_of(a);
  wire_codec(SumType::fixed64, WireFormat::f32).add(bytes_of(b).data(), 2, sum.data());
  EXPECT_EQ(sum, bytes_of(std::vector<std::int64_t>{3LL << 61, -2}));
}

// Parts that begin at a block are encoded as they stand in the whole.
TEST(WireCodec, MessagesOfPartsArePartsOfTheMessage) {
  std::mt19937 random(1);
  std::vector<float> x(100);
  for (float& v : x) v = static_cast<float>(static_cast<std::int32_t>(random())) * 0x1p-31F;
  const Bytes held = bytes_of(x);
  for (const WireFormat format : all_wire_formats()) {
    const WireCodec& codec = wire_codec(SumType::f32, format);
    Bytes whole(codec.wire_bytes(100)), parts(whole.size());
    codec.encode(held.data(), 100, whole.data());
    codec.encode(held.data(), 64, parts.data());
    codec.encode(held.data() + std::size_t{64} * 4, 36, parts.data() + codec.wire_bytes(64));
    EXPECT_TRUE(whole == parts) << name(format);
  }
}

TEST(WireCodec, RoundingIsWithinItsUnit) {
  // 1 + 2^-8 lies half-way between two bfloat16 numbers, 1 + 2^-11 between two float16 ones.
  const auto through = [](WireFormat format, std::vector<float> x) {
    const WireCodec& codec = wire_codec(SumType::f32, format);
    Bytes wire(codec.wire_bytes(x.size()));
    codec.encode(bytes_of(x).data(), x.size(), wire.data());
    codec.decode(wire.data(), x.size(), reinterpret_cast<std::byte*>(x.data()));
    return x;
  };
  using Floats = std::vector<float>;
  EXPECT_EQ(through(WireFormat::bf16, {1 + 0x1p-8F, 1 + 0x3p-8F, -3e38F}),
            (Floats{1, 1 + 0x1p-6F, -0x1.c4p127F}));
  EXPECT_EQ(through(WireFormat::f16, {1 + 0x1p-11F, 1 + 0x3p-11F, 70000}),
            (Floats{1, 1 + 0x1p-9F, HUGE_VALF}));
  EXPECT_EQ(through(WireFormat::int8, {127, 0.4F, 0.6F, -126.5F}), (Floats{127, 0, 1, -126}));
}

TEST(WireCodec, AnExactSumIsNotRounded) {
  EXPECT_THAT(error_of([] { wire_codec(SumType::fixed64, WireFormat::bf16); }),
              HasSubstr("the wire format of an exact sum"));
}

}  // namespace
}  // namespace shardlm
