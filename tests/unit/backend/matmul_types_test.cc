// Matmuls with weights of every float type, and with an activation behind them.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "backend/cpu/cpu_features.h"
#include "tests/unit/backend/cpu_testing.h"

namespace shardlm {
namespace {

/// Without AMX, which has bits of its own (amx_matmul_test.cc).
class MatmulTypesTest : public OnEverySimdTarget {
 private:
  ForcedCpuFeatures forced_{CpuFeatures{.avx512_vnni = true}};
};
SHARDLM_ON_EVERY_SIMD_TARGET(MatmulTypesTest);

constexpr DType kFloatTypes[] = {DType::f32, DType::bf16, DType::f16};

HostMatrix multiply(Backend& backend, const HostMatrix& x, const WeightMatrix& w,
                    const HostMatrix& bias) {
  const Tensor xs = upload(backend, x), biases = upload(backend, bias);
  const Tensor out = backend.allocate(x.rows, w.out());
  backend.matmul(xs, w, &biases, out);
  return download(backend, out);
}

HostMatrix first_rows(const HostMatrix& m, std::int64_t rows) {
  HostMatrix part(rows, m.cols);
  std::copy_n(m.data.begin(), part.data.size(), part.data.begin());
  return part;
}

/// What the type makes of the values.
HostMatrix rounded(DType dtype, const HostMatrix& m) {
  HostMatrix result = m;
  std::vector<std::byte> stored(m.data.size() * bits(dtype) / 8);
  from_float32(dtype, m.data, stored);
  to_float32(dtype, stored, result.data);
  return result;
}

struct Case {
  std::int64_t in, out;
};

std::vector<Case> odd_shapes() {
  std::vector<Case> cases;
  for (const std::int64_t in : {1, 2, 31, 33, 64, 65, 1733}) {
    for (const std::int64_t out : {1, 63, 64, 65}) cases.push_back({in, out});
  }
  for (const std::int64_t in : {1, 65}) cases.push_back({in, 1733});
  return cases;
}

TEST_P(MatmulTypesTest, WithinTheBoundOfOneChainAtOddShapes) {
  for (const DType dtype : kFloatTypes) {
    const auto backend = make_cpu_backend(2, {.weights = dtype});
    for (const auto [in, out] : odd_shapes()) {
      const HostMatrix x = random_floats(17, in, 1), w = random_floats(in, out, 2);
      const HostMatrix bias = random_floats(1, out, 3), exact = rounded(dtype, w);
      const auto matrix = make_matrix(*backend, w);
      const HostMatrix few = multiply(*backend, first_rows(x, 5), *matrix, bias);
      const HostMatrix many = multiply(*backend, x, *matrix, bias);
      for (std::int64_t t = 0; t < x.rows; ++t) {
        for (std::int64_t j = 0; j < out; ++j) {
          double sum = bias.at(0, j), size = std::abs(sum);
          for (std::int64_t k = 0; k < in; ++k) {
            sum += double{x.at(t, k)} * exact.at(k, j);
            size += std::abs(double{x.at(t, k)} * exact.at(k, j));
          }
          const double bound = static_cast<double>(in + 2) * kRounding * size;
          ASSERT_NEAR(many.at(t, j), sum, bound) << name(dtype) << " " << in << " x " << out;
          if (t >= few.rows) continue;
          ASSERT_NEAR(few.at(t, j), sum, bound) << name(dtype) << " " << in << " x " << out;
        }
      }
    }
  }
}

TEST_P(MatmulTypesTest, HalfWidthWeightsGiveTheBitsOfTheFloat32KernelOnTheRoundedOnes) {
  const auto wide = make_cpu_backend(1);
  for (const DType dtype : {DType::bf16, DType::f16}) {
    for (const auto [in, out] : {Case{333, 200}, Case{1, 65}, Case{600, 33}}) {
      const HostMatrix x = random_floats(205, in, 1), w = random_floats(in, out, 2);
      const HostMatrix bias = random_floats(1, out, 3);
      const HostMatrix expected = multiply(*wide, x, *make_matrix(*wide, rounded(dtype, w)), bias);
      for (int threads = 1; threads <= 5; ++threads) {
        const auto backend = make_cpu_backend(threads, {.weights = dtype});
        const auto matrix = make_matrix(*backend, w);
        for (const std::int64_t rows : {1, 2, 3, 4, 5, 6, 7, 12, 17, 18, 19, 96, 97, 128, 205}) {
          if (threads > 1 && rows > 7 && rows < 205) continue;
          const HostMatrix found = multiply(*backend, first_rows(x, rows), *matrix, bias);
          ASSERT_TRUE(same_bits(found.data, first_rows(expected, rows).data))
              << name(dtype) << ", " << rows << " rows, " << in << " x " << out << ", " << threads
              << " threads";
        }
      }
    }
  }
}

TEST_P(MatmulTypesTest, TheSameBitsHoweverThreadsCutThePanels) {
  for (const DType dtype : kFloatTypes) {
    const HostMatrix x = random_floats(3, 700, 1), bias = random_floats(1, 290, 3);
    const HostMatrix w = random_floats(700, 290, 2);  // 4.5 panels: halves on most teams
    const auto single = make_cpu_backend(1, {.weights = dtype});
    const HostMatrix whole = multiply(*single, x, *make_matrix(*single, w), bias);
    for (int threads = 2; threads <= 5; ++threads) {
      const auto backend = make_cpu_backend(threads, {.weights = dtype});
      const auto matrix = make_matrix(*backend, w);
      EXPECT_TRUE(same_bits(multiply(*backend, x, *matrix, bias).data, whole.data));
      for (std::int64_t t = 0; t < x.rows; ++t) {
        HostMatrix one(1, x.cols);
        std::ranges::copy(x.row(t), one.data.begin());
        EXPECT_TRUE(same_bits(multiply(*backend, one, *matrix, bias).data, whole.row(t)))
            << name(dtype) << " row " << t << ", " << threads << " threads";
      }
    }
  }
}

TEST_P(MatmulTypesTest, EveryHalfWidthNumberIsWidenedExactly) {
  for (const DType dtype : {DType::bf16, DType::f16}) {
    const auto backend = make_cpu_backend(1, {.weights = dtype});
    std::vector<std::uint16_t> codes(1 << 16);
    for (std::size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<std::uint16_t>(i);
    HostMatrix w(2, 1 << 15);
    to_float32(dtype, std::as_bytes(std::span(codes)), w.data);
    const auto matrix = make_matrix(*backend, w);
    for (const std::int64_t rows : {2, 8}) {  // one tile; a slice converted for several
      HostMatrix x(rows, 2);
      // Either input alone; 0 * infinity would be NaN, so both halves are looked at on their own.
      for (std::int64_t t = 0; t < rows; ++t) x.at(t, t % 2) = 1;
      const HostMatrix found = multiply(*backend, x, *matrix, HostMatrix(1, w.cols));
      for (std::int64_t t = 0; t < rows; ++t) {
        for (std::int64_t j = 0; j < w.cols; ++j) {
          const float expected = w.at(t % 2, j), other = w.at(1 - t % 2, j);
          if (std::isnan(expected) || !std::isfinite(other)) {
            ASSERT_TRUE(std::isnan(found.at(t, j))) << name(dtype) << " " << expected;
          } else {
            ASSERT_EQ(found.at(t, j), expected) << name(dtype);
          }
        }
      }
    }
  }
}

TEST_P(MatmulTypesTest, AFusedActivationHasTheBitsOfASeparateOne) {
  for (const DType dtype : kFloatTypes) {
    const auto backend = make_cpu_backend(2, {.weights = dtype});
    const HostMatrix w = random_floats(65, 200, 2), bias = random_floats(1, 200, 3);
    const auto matrix = make_matrix(*backend, w);
    const Tensor biases = upload(*backend, bias);
    for (const std::int64_t rows : {1, 7, 128}) {
      const Tensor x = upload(*backend, random_floats(rows, 65, 1));
      const Tensor fused = backend->allocate(rows, 200), apart = backend->allocate(rows, 200);
      for (const Activation kind : {Activation::gelu_tanh, Activation::gelu_erf, Activation::relu,
                                    Activation::silu, Activation::tanh, Activation::gelu_quick}) {
        for (const Tensor* b : {&biases, static_cast<const Tensor*>(nullptr)}) {
          backend->matmul_activate(x, *matrix, b, kind, fused);
          backend->matmul(x, *matrix, b, apart);
          backend->activate(kind, apart);
          EXPECT_TRUE(same_bits(download(*backend, fused).data, download(*backend, apart).data));
        }
      }
    }
  }
}

}  // namespace
}  // namespace shardlm
