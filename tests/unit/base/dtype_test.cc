// Conversions against the definition of each format: (-1)^s 2^(e - bias) (1 + m / 2^bits), with
// (-1)^s 2^(1 - bias) m / 2^bits for e = 0, and infinity and NaN for the largest e (IEEE 754).
#include "base/dtype.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <tuple>
#include <vector>

#include "base/error.h"

namespace shardlm {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// The value of a 16-bit float with `n_exponent` bits of exponent, by the formula, in double
// (exact).
double value_by_formula(unsigned bits, int n_exponent) {
  const int n_mantissa = 15 - n_exponent;
  const int bias = (1 << (n_exponent - 1)) - 1;
  const int exponent = static_cast<int>(bits >> n_mantissa) & ((1 << n_exponent) - 1);
  const int mantissa = static_cast<int>(bits) & ((1 << n_mantissa) - 1);
  const double sign = (bits & 0x8000U) != 0 ? -1 : 1;
  if (exponent == (1 << n_exponent) - 1) {
    return mantissa == 0 ? sign * kInfinity : std::numeric_limits<double>::quiet_NaN();
  }
  const double fraction = std::ldexp(mantissa, -n_mantissa);
  return exponent == 0 ? sign * std::ldexp(fraction, 1 - bias)
                       : sign * std::ldexp(1 + fraction, exponent - bias);
}

template <typename T>
std::vector<float> convert(DType dtype, const std::vector<T>& from) {
  std::vector<float> to(from.size());
  to_float32(dtype, std::as_bytes(std::span(from)), to);
  return to;
}

void expect_every_value(DType dtype, int n_exponent) {
  std::vector<std::uint16_t> all(65536);
  for (unsigned i = 0; i < all.size(); ++i) all[i] = static_cast<std::uint16_t>(i);
  const std::vector<float> floats = convert(dtype, all);
  for (unsigned i = 0; i < all.size(); ++i) {
    const double expected = value_by_formula(i, n_exponent);
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(floats[i])) << i;
    } else {
      ASSERT_EQ(static_cast<double>(floats[i]), expected) << i;
    }
    ASSERT_EQ(std::signbit(floats[i]), i >= 0x8000) << i;  // of zeros and NaN too
  }
}

TEST(DType, every_half_has_the_value_of_the_formula) { expect_every_value(DType::f16, 5); }

TEST(DType, every_bfloat16_has_the_value_of_the_formula) { expect_every_value(DType::bf16, 8); }

// Published examples: the table of the article on the half-precision format.
TEST(DType, well_known_halves) {
  EXPECT_THAT(
      convert<std::uint16_t>(
          DType::f16, {0x0001, 0x03ff, 0x0400, 0x3555, 0x3bff, 0x3c00, 0x3c01, 0x7bff, 0xc000}),
      testing::ElementsAre(5.960464477539063e-08F, 6.097555160522461e-05F, 6.103515625e-05F,
                           0.333251953125F, 0.99951171875F, 1.0F, 1.0009765625F, 65504.0F, -2.0F));
}

TEST(DType, float32_is_copied_bit_by_bit) {
  const std::vector<std::uint32_t> bits = {0,          0x80000000, 1,          0x007fffff,
                                           0x7f800000, 0xff800000, 0x7f800001, 0xffc12345};
  const std::vector<float> floats = convert(DType::f32, bits);
  for (std::size_t i = 0; i < bits.size(); ++i) {
    EXPECT_EQ(std::bit_cast<std::uint32_t>(floats[i]), bits[i]);
  }
}

TEST(DType, float64_is_rounded_to_nearest_even) {
  const std::vector<std::pair<double, float>> cases = {
      {0.1, 0.1F},
      {1 + 0x1p-24, 1.0F},                    // a tie, to the even mantissa below
      {1 + 3 * 0x1p-24, 1 + 0x1p-22F},        // a tie, to the even mantissa above
      {1 + 0x1p-24 + 0x1p-50, 1 + 0x1p-23F},  // just above a tie
      {0x1p-149, 0x1p-149F},                  // the least subnormal
      {0x1p-150, 0.0F},                       // a tie, to zero
      {0x1.8p-150, 0x1p-149F},
      {0x1.fffffep127, 0x1.fffffep127F},  // the largest
      {-kInfinity, -kInfinity},
      {kInfinity, kInfinity}};
  for (const auto& [from, to] : cases) {
    EXPECT_EQ(convert<double>(DType::f64, {from})[0], to) << from;
  }
  EXPECT_TRUE(std::isnan(convert<double>(DType::f64, {std::nan("")})[0]));
  EXPECT_TRUE(std::signbit(convert<double>(DType::f64, {-0.0})[0]));
}

TEST(DType, bytes_need_no_alignment) {
  const double number = -7.25;
  std::vector<std::byte> bytes(16);
  for (std::size_t shift = 0; shift < 8; ++shift) {
    std::memcpy(bytes.data() + shift, &number, sizeof number);
    float out = 0;
    to_float32(DType::f64, std::span(bytes).subspan(shift, 8), std::span(&out, 1));
    EXPECT_EQ(out, -7.25F);
  }
}

TEST(DType, nothing_converts_to_nothing) {
  for (const DType dtype : {DType::f64, DType::f32, DType::f16, DType::bf16}) {
    EXPECT_NO_THROW(to_float32(dtype, {}, {}));
  }
}

TEST(DType, sizes_must_agree) {
  const std::vector<std::byte> bytes(6);
  std::vector<float> out(2);
  for (const DType dtype : {DType::f64, DType::f32, DType::f16, DType::bf16}) {
    try {
      to_float32(dtype, bytes, out);
      ADD_FAILURE() << name(dtype);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::bug);
    }
  }
}

std::uint16_t narrow(DType dtype, float x) {
  std::uint16_t word = 0;
  from_float32(dtype, {&x, 1}, std::as_writable_bytes(std::span(&word, 1)));
  return word;
}

float widen(DType dtype, std::uint16_t word) {
  float x = 0;
  to_float32(dtype, std::as_bytes(std::span(&word, 1)), {&x, 1});
  return x;
}

// Every value of a 2-byte type comes back as it was, and between two neighbours the nearer one is
// taken, in the middle the even one.
TEST(DType, from_float32_rounds_to_nearest_even) {
  for (const DType dtype : {DType::f16, DType::bf16}) {
    const std::uint32_t infinity = dtype == DType::f16 ? 0x7c00 : 0x7f80;
    for (std::uint32_t word = 0; word < infinity; ++word) {
      const auto here = static_cast<std::uint16_t>(word),
                 next = static_cast<std::uint16_t>(word + 1);
      const float a = widen(dtype, here);
      ASSERT_EQ(narrow(dtype, a), here);
      ASSERT_EQ(narrow(dtype, -a), here | 0x8000);
      if (word + 1 == infinity) continue;
      const auto middle = static_cast<float>((double{a} + widen(dtype, next)) / 2);  // exact
      ASSERT_EQ(narrow(dtype, middle), here % 2 == 0 ? here : next) << word;
      ASSERT_EQ(narrow(dtype, std::nextafter(middle, 0.0F)), here) << word;
      ASSERT_EQ(narrow(dtype, std::nextafter(middle, kInfinity)), next) << word;
    }
    EXPECT_EQ(narrow(dtype, kInfinity), infinity);
    EXPECT_TRUE(std::isnan(widen(dtype, narrow(dtype, std::nanf("")))));
    EXPECT_EQ(narrow(dtype, std::numeric_limits<float>::max()), infinity);
  }
  EXPECT_EQ(narrow(DType::f16, 65519.99F), 0x7bff);  // IEEE 754: 65520 is the first to overflow
  EXPECT_EQ(narrow(DType::f16, 65520.0F), 0x7c00);
}

TEST(DType, from_float32_keeps_floats_and_refuses_the_rest) {
  const std::vector<float> values = {1.5F, -0.0F, 3e38F};
  std::vector<std::byte> bytes(12);
  from_float32(DType::f32, values, bytes);
  EXPECT_EQ(std::memcmp(bytes.data(), values.data(), 12), 0);
  EXPECT_THROW(from_float32(DType::f16, values, bytes), Error);  // 6 bytes are wanted
  EXPECT_THROW(from_float32(DType::i8, values, {bytes.data(), 3}), Error);
}

// Spellings and sizes of the safetensors format.
TEST(DType, names_and_bits) {
  const std::vector<std::tuple<DType, std::string, std::size_t>> table = {
      {DType::f64, "F64", 64},        {DType::f32, "F32", 32},
      {DType::f16, "F16", 16},        {DType::bf16, "BF16", 16},
      {DType::i64, "I64", 64},        {DType::i32, "I32", 32},
      {DType::i16, "I16", 16},        {DType::i8, "I8", 8},
      {DType::u64, "U64", 64},        {DType::u32, "U32", 32},
      {DType::u16, "U16", 16},        {DType::u8, "U8", 8},
      {DType::boolean, "BOOL", 8},    {DType::c64, "C64", 64},
      {DType::f8_e5m2, "F8_E5M2", 8}, {DType::f8_e4m3, "F8_E4M3", 8},
      {DType::f8_e8m0, "F8_E8M0", 8}, {DType::f6_e2m3, "F6_E2M3", 6},
      {DType::f6_e3m2, "F6_E3M2", 6}, {DType::f4, "F4", 4}};
  for (const auto& [dtype, spelling, n] : table) {
    EXPECT_EQ(name(dtype), spelling);
    EXPECT_EQ(parse_dtype(spelling), dtype);
    EXPECT_EQ(bits(dtype), n) << spelling;
    const bool ours =
        spelling == "F64" || spelling == "F32" || spelling == "F16" || spelling == "BF16";
    EXPECT_EQ(is_float(dtype), ours) << spelling;
    if (ours) {
      EXPECT_THAT(std::string(float_dtype_names()), testing::HasSubstr(spelling));
    } else {
      EXPECT_THROW(to_float32(dtype, {}, {}), Error) << spelling;
    }
  }
  for (const char* unknown : {"f32", "", "F32 ", "FLOAT", "BF1"}) {
    EXPECT_FALSE(parse_dtype(unknown).has_value()) << unknown;
  }
}

}  // namespace
}  // namespace shardlm
