// Fixed point: the conversions, products in it with every type of weights, and its way into the
// residual stream.
#include "backend/fixed_point.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "backend/cpu/cpu_features.h"
#include "tests/unit/backend/cpu_testing.h"

namespace shardlm {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

TEST(FixedPoint, IsTheNearestMultipleOfTwoToTheMinus32) {
  for (const float x : {0.0F, -0.0F, 1.0F, -1.0F, 0.1F, -3.7F, 1e-9F, 0x1p-33F, 0x1.8p-32F,
                        0x1p-34F, 524287.96875F, -524287.96875F, 1e-30F, 12345.678F}) {
    ASSERT_TRUE(fits_fixed(x));
    EXPECT_EQ(to_fixed(x), std::llrint(std::ldexp(static_cast<double>(x), 32))) << x;
  }
  EXPECT_EQ(to_fixed(0x1p-33F), 0);  // halfway: to the even one
  EXPECT_EQ(to_fixed(0x3p-33F), 2);
  for (const float x : {0x1p19F, -0x1p19F, 1e9F, kInfinity, -kInfinity, kNaN}) {
    EXPECT_FALSE(fits_fixed(x)) << x;
  }
}

TEST(FixedPoint, BecomesTheNearestFloat) {
  for (const std::int64_t x : {std::int64_t{0}, std::int64_t{1}, std::int64_t{-1} << 40,
                               (std::int64_t{1} << 52) + 1, -(std::int64_t{1} << 53) + 3}) {
    EXPECT_EQ(from_fixed(x), static_cast<float>(std::ldexp(static_cast<long double>(x), -32)));
  }
  EXPECT_EQ(from_fixed(INT64_MAX), 0x1p31F);
}

/// Of both kernels of quantised weights where the machine has two.
class MatmulFixedTest : public OnEverySimdTarget {};
SHARDLM_ON_EVERY_SIMD_TARGET(MatmulFixedTest);

struct Fixed {
  std::vector<std::int64_t> sums;
  std::optional<FixedMisfit> misfit;
};

Fixed multiply_fixed(Backend& backend, const HostMatrix& x, const WeightMatrix& w,
                     std::int64_t block) {
  const Tensor xs = upload(backend, x), out = backend.allocate_fixed(x.rows, w.out());
  Fixed result;
  result.misfit = backend.matmul_fixed(xs, w, block, out);
  for (std::int64_t t = 0; t < x.rows; ++t) {
    result.sums.insert(result.sums.end(), out.fixed_row(t), out.fixed_row(t) + w.out());
  }
  return result;
}

HostMatrix rounded(DType dtype, const HostMatrix& m) {
  HostMatrix result = m;
  std::vector<std::byte> stored(m.data.size() * bits(dtype) / 8);
  from_float32(dtype, m.data, stored);
  to_float32(dtype, stored, result.data);
  return result;
}

HostMatrix part(const HostMatrix& m, std::int64_t row, std::int64_t rows, std::int64_t col,
                std::int64_t cols) {
  HostMatrix result(rows, cols);
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < cols; ++c) result.at(r, c) = m.at(row + r, col + c);
  }
  return result;
}

// The instruction sets without fused multiply-adds round twice.
bool fused() {
  const std::string set = cpu_simd_target();
  return set != "SSE4" && set != "EMU128" && set != "SCALAR";
}

float chain(const HostMatrix& x, const HostMatrix& w, std::int64_t t, std::int64_t j,
            std::int64_t begin, std::int64_t end) {
  float sum = 0;
  for (std::int64_t k = begin; k < end; ++k) {
    const float a = x.at(t, k), b = w.at(k, j);
    if (fused()) {
      sum = std::fma(a, b, sum);
    } else {
      const volatile float product = a * b;
      sum += product;
    }
  }
  return sum;
}

TEST_P(MatmulFixedTest, IsTheSumOfItsBlocksChains) {
  struct Case {
    std::int64_t rows, in, out, block;
  };
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    const auto backend = make_cpu_backend(2, {.weights = dtype});
    for (const Case& c : {Case{1, 64, 64, 64}, Case{1, 200, 70, 64}, Case{3, 36, 65, 12},
                          Case{7, 70, 5, 14}, Case{13, 257, 96, 64}, Case{40, 130, 33, 64},
                          Case{195, 96, 9, 32}, Case{2, 0, 10, 64}, Case{19, 48, 128, 2}}) {
      const HostMatrix x = random_floats(c.rows, c.in, 1);
      const HostMatrix w = rounded(dtype, random_floats(c.in, c.out, 2));
      const Fixed found = multiply_fixed(*backend, x, *make_matrix(*backend, w), c.block);
      EXPECT_FALSE(found.misfit);
      for (std::int64_t t = 0; t < c.rows; ++t) {
        for (std::int64_t j = 0; j < c.out; ++j) {
          std::int64_t sum = 0;
          for (std::int64_t k = 0; k < c.in; k += c.block) {
            const float of_block = chain(x, w, t, j, k, std::min(c.in, k + c.block));
            sum += std::llrint(std::ldexp(static_cast<double>(of_block), 32));
          }
          ASSERT_EQ(found.sums[static_cast<std::size_t>(t * c.out + j)], sum)
              << name(dtype) << " " << c.rows << "x" << c.in << "x" << c.out << " at " << t << ","
              << j;
        }
      }
    }
  }
}

// Values that both roundings keep: in each block of 32 a 127 among the inputs, and among the
// weights of an output the largest magnitude of its type, so that all scales are 1.
TEST_P(MatmulFixedTest, OfInt8AndInt4SumsWholeNumbers) {
  for (const bool vnni : {false, true}) {
    if (vnni && !detected_cpu_features().avx512_vnni) continue;
    const ForcedCpuFeatures forced{CpuFeatures{.avx512_vnni = vnni}};
    for (const DType dtype : {DType::q8, DType::q4}) {
      const auto backend = make_cpu_backend(2, {.weights = dtype});
      for (const std::int64_t rows : {1, 4, 7, 37}) {
        const std::int64_t in = 200, out = 70;
        HostMatrix x = random_integers(rows, in, 3), w = random_integers(in, out, 4);
        for (std::int64_t k = 0; k < in; k += kQuantBlock) {
          for (std::int64_t t = 0; t < rows; ++t) x.at(t, k) = 127;
          for (std::int64_t j = 0; j < out; ++j) w.at(k + 1, j) = dtype == DType::q8 ? 127 : -8;
        }
        const Fixed found = multiply_fixed(*backend, x, *make_matrix(*backend, w), 64);
        EXPECT_FALSE(found.misfit);
        for (std::int64_t t = 0; t < rows; ++t) {
          for (std::int64_t j = 0; j < out; ++j) {
            double sum = 0;
            for (std::int64_t k = 0; k < in; ++k) sum += double{x.at(t, k)} * w.at(k, j);
            // The scale 127 * (1 / 127) is a rounding off.
            EXPECT_NEAR(
                std::ldexp(static_cast<double>(found.sums[static_cast<std::size_t>(t * out + j)]),
                           -32),
                sum, 0x1p-21 * 4 * 32 * 127 * 7)
                << name(dtype) << " vnni " << vnni << " at " << t << "," << j;
          }
        }
      }
    }
  }
}

TEST_P(MatmulFixedTest, OfAnyCutAddsUpToTheSameIntegers) {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16, DType::q8, DType::q4}) {
    const auto one = make_cpu_backend(1, {.weights = dtype});
    const auto three = make_cpu_backend(3, {.weights = dtype});
    const std::int64_t rows = 45, in = 300, out = 130, block = 64;
    const HostMatrix x = random_floats(rows, in, 5), w = random_floats(in, out, 6);
    const Fixed whole = multiply_fixed(*one, x, *make_matrix(*one, w), block);
    EXPECT_EQ(multiply_fixed(*three, x, *make_matrix(*three, w), block).sums, whole.sums);
    for (const std::int64_t cut : {64, 128, 256}) {
      std::vector<std::int64_t> sums(whole.sums.size());
      for (const auto& [begin, end] : {std::pair(std::int64_t{0}, cut), std::pair(cut, in)}) {
        const HostMatrix w_part = part(w, begin, end - begin, 0, out);
        const HostMatrix x_part = part(x, 0, rows, begin, end - begin);
        const auto matrix = make_matrix(*three, w_part);
        const Fixed found = multiply_fixed(*three, x_part, *matrix, block);
        for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += found.sums[i];
      }
      EXPECT_EQ(sums, whole.sums) << name(dtype) << " cut at " << cut;
    }
    // A row alone has the bits that it has among others.
    for (const std::int64_t t : {0, 17, 44}) {
      const Fixed alone = multiply_fixed(*one, part(x, t, 1, 0, in), *make_matrix(*one, w), block);
      const auto begin = whole.sums.begin() + t * out;
      EXPECT_EQ(alone.sums, std::vector(begin, begin + out)) << name(dtype) << " row " << t;
    }
  }
}

TEST_P(MatmulFixedTest, NamesASumThatDoesNotFit) {
  const auto backend = make_cpu_backend(2);
  const std::int64_t rows = 9, in = 130, out = 71;
  for (const float bad : {0x1p19F, -0x1p20F, kInfinity, kNaN}) {
    for (const auto& [row, output] : {std::pair(0, 0), std::pair(3, 70), std::pair(8, 64)}) {
      HostMatrix x = random_floats(rows, in, 7), w = random_floats(in, out, 8);
      for (std::int64_t t = 0; t < rows; ++t) x.at(t, 129) = 0;
      for (std::int64_t j = 0; j < out; ++j) w.at(129, j) = 0;
      for (std::int64_t k = 128; k < in; ++k) x.at(row, k) = 0, w.at(k, output) = 0;
      x.at(row, 129) = bad;
      w.at(129, output) = 1;
      if (!std::isfinite(bad)) {  // times 0 is NaN in the other outputs: the row's first one
        w = HostMatrix(in, out);
      }
      const Fixed found = multiply_fixed(*backend, x, *make_matrix(*backend, w), 64);
      ASSERT_TRUE(found.misfit) << bad;
      EXPECT_EQ(found.misfit->row, row);
      EXPECT_EQ(found.misfit->output, std::isfinite(bad) ? output : 0);
      if (std::isfinite(bad)) {
        EXPECT_EQ(found.misfit->sum, bad);
      } else {
        EXPECT_TRUE(std::isnan(found.misfit->sum));
      }
    }
  }
}

TEST_P(MatmulFixedTest, AnIntegerSumJoinsTheResidualStreamAsOneFloat) {
  const auto backend = make_cpu_backend(2);
  for (const std::int64_t cols : {1, 7, 16, 769}) {
    const std::int64_t rows = 3;
    const HostMatrix a = random_floats(rows, cols, 9), b = random_floats(rows, cols, 10);
    const HostMatrix x = random_floats(rows, cols, 11), bias = random_floats(1, cols, 12);
    const Tensor fixed_a = backend->allocate_fixed(rows, cols);
    const Tensor fixed_b = backend->allocate_fixed(rows, cols);
    for (std::int64_t t = 0; t < rows; ++t) {
      for (std::int64_t j = 0; j < cols; ++j) {
        fixed_a.fixed_row(t)[j] = to_fixed(a.at(t, j)) << 20;  // large ones
        fixed_b.fixed_row(t)[j] = -(to_fixed(a.at(t, j)) << 20) + to_fixed(b.at(t, j));
      }
    }
    Tensor residual = upload(*backend, x);
    const Tensor biases = upload(*backend, bias);
    const std::array addends = {fixed_a, fixed_b};
    backend->update_residual(addends, {.bias = &biases, .residual = &residual});
    for (std::int64_t t = 0; t < rows; ++t) {
      for (std::int64_t j = 0; j < cols; ++j) {
        const auto sum = static_cast<float>(
            std::ldexp(std::rint(std::ldexp(static_cast<double>(b.at(t, j)), 32)), -32));
        const float with_bias = sum + bias.at(0, j);
        EXPECT_EQ(residual.row(t)[j], x.at(t, j) + with_bias) << t << "," << j;
      }
    }
  }
}

TEST(MatmulFixed, OnADeviceWithoutItSaysWhatToDo) {
  // What every back end but the CPU's does: Backend's own matmul_fixed.
  const auto backend = make_cpu_backend(1);
  const HostMatrix x(1, 64), w(64, 1);
  const auto matrix = make_matrix(*backend, w);
  const Tensor xs = upload(*backend, x), out = backend->allocate_fixed(1, 1);
  try {
    backend->Backend::matmul_fixed(xs, *matrix, 64, out);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::usage);
    EXPECT_NE(std::string(error.what()).find("--reduction ordered"), std::string::npos);
  }
}

}  // namespace
}  // namespace shardlm
