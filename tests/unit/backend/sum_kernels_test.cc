#include "backend/cpu/sum_kernels.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "base/dtype.h"
#include "tests/unit/backend/cpu_testing.h"

namespace shardlm {
namespace {

using Bytes = std::vector<std::byte>;
using Floats = std::vector<float>;

class SumKernels : public OnEverySimdTarget {};
SHARDLM_ON_EVERY_SIMD_TARGET(SumKernels);

constexpr std::size_t kSizes[] = {0, 1, 2, 3, 7, 8, 15, 16, 17, 31, 32, 33, 64, 100, 1001};
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

// All magnitudes that float16 has and some beyond, and what is special.
Floats values_of(std::size_t n) {
  std::mt19937 random(static_cast<unsigned>(n));
  std::uniform_int_distribution<int> exponent(-30, 20);
  Floats values(n);
  for (float& v : values) {
    const float fraction = static_cast<float>(static_cast<std::int32_t>(random())) * 0x1p-31F;
    v = std::ldexp(fraction, exponent(random));
  }
  const Floats special = {kInfinity, -kInfinity, kNaN, 0.0F, -0.0F, 65504, 65520, 0x1p-25F};
  for (std::size_t i = 0; i < special.size() && 3 * i + 2 < n; ++i) values[3 * i + 2] = special[i];
  return values;
}

// Messages at an odd address, with bytes around them that nobody may touch.
class OddMemory {
 public:
  explicit OddMemory(std::size_t bytes) : memory_(bytes + 2, std::byte{0x5a}) {}
  std::byte* data() { return memory_.data() + 1; }
  std::span<const std::byte> span() const { return {memory_.data() + 1, memory_.size() - 2}; }
  bool edges_untouched() const {
    return memory_.front() == std::byte{0x5a} && memory_.back() == std::byte{0x5a};
  }

 private:
  Bytes memory_;
};

template <class T>
OddMemory odd_copy(const std::vector<T>& values) {
  OddMemory memory(values.size() * sizeof(T));
  if (!values.empty()) std::memcpy(memory.data(), values.data(), values.size() * sizeof(T));
  return memory;
}

TEST_P(SumKernels, FloatsAreAddedOneByOne) {
  for (const std::size_t n : kSizes) {
    const Floats a = random_floats(1, static_cast<std::int64_t>(n), 1).data;
    const Floats b = random_floats(1, static_cast<std::int64_t>(n), 2).data;
    Floats sum = a, want(n);
    for (std::size_t i = 0; i < n; ++i) want[i] = a[i] + b[i];
    add_floats(odd_copy(b).data(), n, sum.data());
    EXPECT_TRUE(same_bits(sum, want)) << n;
  }
}

TEST_P(SumKernels, IntegersWrapAround) {
  for (const std::size_t n : kSizes) {
    std::vector<std::int64_t> a(n), b(n), want(n);
    std::mt19937_64 random(n);
    for (std::size_t i = 0; i < n; ++i) {
      a[i] = static_cast<std::int64_t>(random());
      b[i] = static_cast<std::int64_t>(random());
      want[i] = static_cast<std::int64_t>(static_cast<std::uint64_t>(a[i]) +
                                          static_cast<std::uint64_t>(b[i]));
    }
    add_int64(odd_copy(b).data(), n, a.data());
    EXPECT_EQ(a, want) << n;
  }
}

// A codec of two bytes an element against base/dtype.h.
void check_narrow(DType dtype, void (*encode)(const float*, std::size_t, std::byte*),
                  void (*decode)(const std::byte*, std::size_t, float*),
                  void (*add)(const std::byte*, std::size_t, float*)) {
  for (const std::size_t n : kSizes) {
    const Floats x = values_of(n);
    Bytes want(2 * n);
    from_float32(dtype, x, want);
    OddMemory wire(2 * n);
    encode(x.data(), n, wire.data());
    EXPECT_TRUE(std::ranges::equal(wire.span(), want)) << n;
    EXPECT_TRUE(wire.edges_untouched()) << n;

    Floats value(n), decoded(n, 7);
    to_float32(dtype, want, value);
    decode(wire.data(), n, decoded.data());
    EXPECT_TRUE(same_bits(decoded, value)) << n;

    Floats sum = random_floats(1, std::ssize(x), 3).data, summed(n);
    for (std::size_t i = 0; i < n; ++i) summed[i] = sum[i] + value[i];
    add(wire.data(), n, sum.data());
    for (std::size_t i = 0; i < n; ++i) {
      if (std::isnan(summed[i])) {
        EXPECT_TRUE(std::isnan(sum[i]));
      } else {
        EXPECT_EQ(sum[i], summed[i]) << n << " " << i;
      }
    }
  }
}

TEST_P(SumKernels, Bfloat16AsFromFloat32) {
  check_narrow(DType::bf16, encode_bf16, decode_bf16, add_bf16);
}

TEST_P(SumKernels, Float16AsFromFloat32) {
  check_narrow(DType::f16, encode_f16, decode_f16, add_f16);
}

Floats through_int8(const Floats& x) {
  OddMemory wire(int8_bytes(x.size()));
  encode_int8(x.data(), x.size(), wire.data());
  EXPECT_TRUE(wire.edges_untouched());
  Floats decoded(x.size(), 7);
  decode_int8(wire.data(), x.size(), decoded.data());
  return decoded;
}

TEST_P(SumKernels, Int8IsNearestInUnitsOfTheBlocksScale) {
  EXPECT_EQ(int8_bytes(0), 0U);
  EXPECT_EQ(int8_bytes(1), 5U);
  EXPECT_EQ(int8_bytes(32), 36U);
  EXPECT_EQ(int8_bytes(33), 41U);
  for (const std::size_t n : kSizes) {
    Floats x = random_floats(1, static_cast<std::int64_t>(n), 4).data;
    for (std::size_t i = 0; i < n; ++i) x[i] = std::ldexp(x[i], static_cast<int>(i / 32 % 7) - 3);
    const Floats decoded = through_int8(x);
    for (std::size_t first = 0; first < n; first += 32) {
      const std::size_t end = std::min(n, first + 32);
      double most = 0;
      for (std::size_t i = first; i < end; ++i) most = std::max(most, std::abs(double{x[i]}));
      // Half a step, and a rounding each of scale, inverse, product and decoded value.
      const double bound = most / 127 / 2 + 4 * most * kRounding;
      for (std::size_t i = first; i < end; ++i) EXPECT_NEAR(decoded[i], x[i], bound) << n;
    }
  }
}

TEST_P(SumKernels, Int8ByHand) {
  // Scale 2: 254 is 127 steps, 3 is 1.5 of them and goes to the even 2, 1 is half a one: 0.
  EXPECT_EQ(through_int8({254, -254, 3, 1, -3, 100, 0}), (Floats{254, -254, 4, 0, -4, 100, 0}));
}

TEST_P(SumKernels, Int8BlocksOfZerosAndOfWhatIsNotFinite) {
  for (const std::size_t n : {std::size_t{5}, std::size_t{32}, std::size_t{40}}) {
    EXPECT_EQ(through_int8(Floats(n)), Floats(n));
    EXPECT_EQ(through_int8(Floats(n, 0x1p-101F)), Floats(n));
    EXPECT_EQ(through_int8(Floats(n, 127 * 0x1p-100F)), Floats(n, 127 * 0x1p-100F));
    for (const float bad : {kInfinity, -kInfinity, kNaN, -kNaN}) {
      Floats x(n, 127);
      x[4] = bad;
      const Floats decoded = through_int8(x);
      for (std::size_t i = 0; i < n; ++i) {
        if (i < 32) {
          EXPECT_TRUE(std::isnan(decoded[i])) << n << " " << i;
        }
        if (i >= 32) {
          EXPECT_EQ(decoded[i], 127);  // the next block is sound
        }
      }
    }
  }
}

TEST_P(SumKernels, Int8AddsWhatItDecodes) {
  for (const std::size_t n : kSizes) {
    const Floats x = random_floats(1, static_cast<std::int64_t>(n), 5).data;
    Floats sum = random_floats(1, static_cast<std::int64_t>(n), 6).data, want = through_int8(x);
    for (std::size_t i = 0; i < n; ++i) want[i] += sum[i];
    Bytes wire(int8_bytes(n));
    encode_int8(x.data(), n, wire.data());
    add_int8(wire.data(), n, sum.data());
    EXPECT_TRUE(same_bits(sum, want)) << n;
  }
}

}  // namespace
}  // namespace shardlm
