#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "tests/unit/backend/cpu_testing.h"

namespace shardlm {
namespace {

class MatmulTest : public OnEverySimdTarget {};
SHARDLM_ON_EVERY_SIMD_TARGET(MatmulTest);

HostMatrix multiply(Backend& backend, const HostMatrix& x, const WeightMatrix& w,
                    const HostMatrix* bias) {
  const Tensor xs = upload(backend, x);
  const Tensor out = backend.allocate(x.rows, w.out());
  Tensor bias_tensor;
  if (bias != nullptr) bias_tensor = upload(backend, *bias);
  backend.matmul(xs, w, bias != nullptr ? &bias_tensor : nullptr, out);
  return download(backend, out);
}

HostMatrix first_rows(const HostMatrix& m, std::int64_t rows) {
  HostMatrix part(rows, m.cols);
  std::copy_n(m.data.begin(), part.data.size(), part.data.begin());
  return part;
}

/// Row by row in double: exact for whole numbers.
HostMatrix plain_product(const HostMatrix& x, const HostMatrix& w, const HostMatrix& bias) {
  HostMatrix out(x.rows, w.cols);
  std::vector<double> sums(static_cast<std::size_t>(w.cols));
  for (std::int64_t t = 0; t < x.rows; ++t) {
    std::copy(bias.data.begin(), bias.data.end(), sums.begin());
    for (std::int64_t k = 0; k < x.cols; ++k) {
      for (std::int64_t j = 0; j < w.cols; ++j) {
        sums[static_cast<std::size_t>(j)] += double{x.at(t, k)} * w.at(k, j);
      }
    }
    for (std::int64_t j = 0; j < w.cols; ++j) {
      out.at(t, j) = static_cast<float>(sums[static_cast<std::size_t>(j)]);
    }
  }
  return out;
}

TEST_P(MatmulTest, ExactForWholeNumbersAtOddShapes) {
  const auto backend = make_cpu_backend(2);
  for (const std::int64_t in : {1, 63, 64, 65, 320, 1000}) {
    for (const std::int64_t out : {1, 63, 64, 65, 1733}) {
      const bool large = in * out > 100'000;
      const HostMatrix x = random_integers(large ? 13 : 64, in, 1);
      const HostMatrix w = random_integers(in, out, 2), bias = random_integers(1, out, 3);
      const auto packed = make_matrix(*backend, w);
      const HostMatrix expected = plain_product(x, w, bias);
      for (const std::int64_t rows : {1, 2, 5, 6, 7, 13, 64}) {
        if (rows > x.rows) continue;
        const HostMatrix found = multiply(*backend, first_rows(x, rows), *packed, &bias);
        ASSERT_EQ(found.data, first_rows(expected, rows).data)
            << rows << " rows, " << in << " inputs, " << out << " outputs";
      }
    }
  }
}

TEST_P(MatmulTest, ManyRowsAndSlicesOfInputs) {
  const auto backend = make_cpu_backend(3);
  const HostMatrix x = random_integers(205, 300, 1), w = random_integers(300, 70, 2);
  const HostMatrix zero(1, 70);
  EXPECT_EQ(multiply(*backend, x, *make_matrix(*backend, w), nullptr).data,
            plain_product(x, w, zero).data);
}

TEST_P(MatmulTest, WithinTheBoundOfOneChain) {
  const auto backend = make_cpu_backend(1);
  const std::int64_t in = 1000, out = 65;
  const HostMatrix x = random_floats(7, in, 1), w = random_floats(in, out, 2);
  const HostMatrix bias = random_floats(1, out, 3);
  const HostMatrix found = multiply(*backend, x, *make_matrix(*backend, w), &bias);
  for (std::int64_t t = 0; t < x.rows; ++t) {
    for (std::int64_t j = 0; j < out; ++j) {
      double sum = bias.at(0, j), size = std::abs(sum);
      for (std::int64_t k = 0; k < in; ++k) {
        sum += double{x.at(t, k)} * w.at(k, j);
        size += std::abs(double{x.at(t, k)} * w.at(k, j));
      }
      // One rounding an addition, one more a product where they are not fused.
      ASSERT_NEAR(found.at(t, j), sum, static_cast<double>(in + 2) * kRounding * size);
    }
  }
}

TEST_P(MatmulTest, OneAscendingChainFromTheBias) {
  const auto backend = make_cpu_backend(1);
  HostMatrix x(1, 4), w(4, 1), bias(1, 1);
  w.data = {1, 1, 1, 1};
  // (2^25 + 1) - 2^25 is 0 in float32, pairs or another order would keep the 1 or make it 2.
  x.data = {0x1p25F, 1, -0x1p25F, 1};
  EXPECT_EQ(multiply(*backend, x, *make_matrix(*backend, w), nullptr).at(0, 0), 1.0F);
  // A bias at the start is lost, at the end it would not be.
  x.data = {0x1p25F, -0x1p25F, 0, 0};
  bias.data = {1};
  EXPECT_EQ(multiply(*backend, x, *make_matrix(*backend, w), &bias).at(0, 0), 0.0F);
}

TEST_P(MatmulTest, MultiplyAddsAreFusedWhereTheInstructionsExist) {
  const auto backend = make_cpu_backend(1);
  HostMatrix x(1, 1), w(1, 1), bias(1, 1);
  x.data = w.data = {1 + 0x1p-12F};
  bias.data = {-1 - 0x1p-11F};  // (1 + 2^-12)^2 = 1 + 2^-11 + 2^-24
  const bool fused = GetParam() != "SSE4" && GetParam() != "SCALAR" && GetParam() != "EMU128";
  EXPECT_EQ(multiply(*backend, x, *make_matrix(*backend, w), &bias).at(0, 0),
            fused ? 0x1p-24F : 0.0F);
}

TEST_P(MatmulTest, RowsAreTheSameAloneInABatchAndOnAnyThreads) {
  const HostMatrix x = random_floats(130, 333, 1), w = random_floats(333, 200, 2);
  const HostMatrix bias = random_floats(1, 200, 3);
  const auto single = make_cpu_backend(1);
  const HostMatrix whole = multiply(*single, x, *make_matrix(*single, w), &bias);
  for (const int threads : {2, 3, 7}) {
    const auto backend = make_cpu_backend(threads);
    const auto packed = make_matrix(*backend, w);
    EXPECT_TRUE(same_bits(multiply(*backend, x, *packed, &bias).data, whole.data)) << threads;
  }
  const auto packed = make_matrix(*single, w);
  for (const std::int64_t rows : {1, 2, 3, 4, 5, 6, 7, 11, 96, 97}) {
    const HostMatrix part = multiply(*single, first_rows(x, rows), *packed, &bias);
    EXPECT_TRUE(same_bits(part.data, first_rows(whole, rows).data)) << rows << " rows";
  }
  for (const std::int64_t row : {0, 5, 129}) {
    HostMatrix one(1, x.cols);
    std::ranges::copy(x.row(row), one.data.begin());
    EXPECT_TRUE(same_bits(multiply(*single, one, *packed, &bias).data, whole.row(row))) << row;
  }
}

TEST_P(MatmulTest, ColumnShardsHaveTheBitsOfTheWhole) {
  const auto backend = make_cpu_backend(2);
  const HostMatrix x = random_floats(7, 150, 1), w = random_floats(150, 197, 2);
  const HostMatrix bias = random_floats(1, 197, 3);
  const HostMatrix whole = multiply(*backend, x, *make_matrix(*backend, w), &bias);
  const std::int64_t cuts[] = {0, 1, 40, 104, 197};
  for (int c = 0; c < 4; ++c) {
    HostMatrix shard(w.rows, cuts[c + 1] - cuts[c]), shard_bias(1, shard.cols);
    for (std::int64_t j = 0; j < shard.cols; ++j) {
      shard_bias.at(0, j) = bias.at(0, cuts[c] + j);
      for (std::int64_t k = 0; k < w.rows; ++k) shard.at(k, j) = w.at(k, cuts[c] + j);
    }
    const auto packed = make_matrix(*backend, shard, c % 2 == 1);
    const HostMatrix found = multiply(*backend, x, *packed, &shard_bias);
    for (std::int64_t t = 0; t < x.rows; ++t) {
      const auto columns = whole.row(t).subspan(static_cast<std::size_t>(cuts[c]),
                                                static_cast<std::size_t>(shard.cols));
      EXPECT_TRUE(same_bits(found.row(t), columns)) << "row " << t << " of shard " << c;
    }
  }
}

TEST_P(MatmulTest, NothingInMakesTheBiasAndNothingOutMakesNothing) {
  const auto backend = make_cpu_backend(2);
  const HostMatrix bias = random_floats(1, 70, 1), no_inputs(0, 70), no_outputs(5, 0);
  const HostMatrix none(3, 0);
  const HostMatrix found = multiply(*backend, none, *make_matrix(*backend, no_inputs), &bias);
  for (std::int64_t t = 0; t < 3; ++t) EXPECT_TRUE(same_bits(found.row(t), bias.row(0)));
  EXPECT_EQ(multiply(*backend, none, *make_matrix(*backend, no_inputs), nullptr).data,
            std::vector<float>(210, 0.0F));
  EXPECT_TRUE(multiply(*backend, HostMatrix(3, 5), *make_matrix(*backend, no_outputs), nullptr)
                  .data.empty());
  EXPECT_TRUE(
      multiply(*backend, HostMatrix(0, 5), *make_matrix(*backend, HostMatrix(5, 9)), nullptr)
          .data.empty());
}

TEST_P(MatmulTest, WritesOnlyItsColumnsOfAView) {
  const auto backend = make_cpu_backend(1);
  const HostMatrix x = random_integers(3, 10, 1), w = random_integers(10, 66, 2), bias(1, 66);
  HostMatrix frame(3, 70);
  std::ranges::fill(frame.data, 77.0F);
  const Tensor out = upload(*backend, frame);
  backend->matmul(upload(*backend, x), *make_matrix(*backend, w), nullptr, out.columns(2, 68));
  const HostMatrix found = download(*backend, out), expected = plain_product(x, w, bias);
  for (std::int64_t t = 0; t < 3; ++t) {
    for (std::int64_t j = 0; j < 70; ++j) {
      EXPECT_EQ(found.at(t, j), j >= 2 && j < 68 ? expected.at(t, j - 2) : 77.0F);
    }
  }
}

TEST_P(MatmulTest, NaNReachesItsRowAndColumnOnly) {
  const auto backend = make_cpu_backend(2);
  HostMatrix x = random_floats(8, 65, 1), w = random_floats(65, 65, 2);
  x.at(3, 64) = std::numeric_limits<float>::quiet_NaN();
  w.at(0, 64) = std::numeric_limits<float>::infinity();
  x.at(5, 0) = 0;  // 0 * infinity
  const HostMatrix found = multiply(*backend, x, *make_matrix(*backend, w), nullptr);
  for (std::int64_t t = 0; t < 8; ++t) {
    for (std::int64_t j = 0; j < 64; ++j) EXPECT_EQ(std::isnan(found.at(t, j)), t == 3);
    EXPECT_EQ(std::isnan(found.at(t, 64)), t == 3 || t == 5);
    EXPECT_FALSE(std::isfinite(found.at(t, 64)));
  }
}

TEST(Matmul, RefusesShapesThatDoNotFit) {
  const auto backend = make_cpu_backend(1);
  const auto w = make_matrix(*backend, HostMatrix(4, 6));
  const Tensor x = backend->allocate(2, 5), out = backend->allocate(2, 6);
  EXPECT_THROW(backend->matmul(x, *w, nullptr, out), Error);
  EXPECT_THROW(backend->matmul(x.columns(0, 4), *w, nullptr, out.columns(0, 5)), Error);
  EXPECT_THROW(backend->matmul(x.columns(0, 4), *w, nullptr, out.row_range(0, 1)), Error);
  const Tensor bias = backend->allocate(1, 5);
  EXPECT_THROW(backend->matmul(x.columns(0, 4), *w, &bias, out), Error);
}

}  // namespace
}  // namespace shardlm
