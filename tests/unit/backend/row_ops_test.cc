#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "tests/unit/backend/cpu_testing.h"

namespace shardlm {
namespace {

class RowOpsTest : public OnEverySimdTarget {};
SHARDLM_ON_EVERY_SIMD_TARGET(RowOpsTest);

LayerNormParams norm_of(Backend& backend, const HostMatrix& weight, const HostMatrix& bias,
                        float epsilon) {
  return {.weight = upload(backend, weight), .bias = upload(backend, bias), .epsilon = epsilon};
}

HostMatrix row_of(std::vector<float> values) {
  HostMatrix m(1, std::ssize(values));
  m.data = std::move(values);
  return m;
}

HostMatrix normalise(Backend& backend, const HostMatrix& x, const LayerNormParams& norm) {
  const Tensor out = backend.allocate(x.rows, x.cols);
  backend.layer_norm(upload(backend, x), norm, out);
  return download(backend, out);
}

TEST_P(RowOpsTest, LayerNormByHand) {
  const auto backend = make_cpu_backend(1);
  // Mean 3, variance 4; with epsilon 12 the root is 4.
  const auto norm = norm_of(*backend, row_of({1, 1, 2, 1}), row_of({0, 0, 10, -1}), 12);
  EXPECT_EQ(normalise(*backend, row_of({1, 1, 5, 5}), norm).data,
            (std::vector<float>{-0.5, -0.5, 11, -0.5}));
}

TEST_P(RowOpsTest, LayerNormOfSmallDifferencesFarFromZero) {
  const auto backend = make_cpu_backend(1);
  // E[x^2] - E[x]^2 in float32 would see variance 0 here: x^2 is about 1.7e7 with a spacing of 2.
  const auto norm = norm_of(*backend, row_of({1, 1, 1, 1}), row_of({0, 0, 0, 0}), 0);
  const float base = 0x1p20F;
  EXPECT_EQ(normalise(*backend, row_of({base - 1, base + 1, base - 1, base + 1}), norm).data,
            (std::vector<float>{-1, 1, -1, 1}));
}

TEST_P(RowOpsTest, LayerNormAgainstDouble) {
  const auto backend = make_cpu_backend(2);
  for (const std::int64_t n : {1, 2, 15, 16, 17, 63, 65, 320, 1000, 1600}) {
    const HostMatrix x = random_floats(40, n, 1), weight = random_floats(1, n, 2);
    const HostMatrix bias = random_floats(1, n, 3);
    const HostMatrix y = normalise(*backend, x, norm_of(*backend, weight, bias, 1e-5F));
    for (std::int64_t t = 0; t < x.rows; ++t) {
      double mean = 0, variance = 0, largest = 0;
      for (const float v : x.row(t)) mean += v / static_cast<double>(n);
      for (const float v : x.row(t)) {
        variance += (v - mean) * (v - mean) / static_cast<double>(n);
        largest = std::max(largest, std::abs(v - mean));
      }
      const double scale = 1 / std::sqrt(variance + 1e-5);
      // The mean of n numbers below 1 is off by n roundings at most, and so is, relatively, the
      // root of the variance; a few more for the formula itself.
      const double bound = static_cast<double>(n + 8) * kRounding;
      for (std::int64_t j = 0; j < n; ++j) {
        const double want = (x.at(t, j) - mean) * scale * weight.at(0, j) + bias.at(0, j);
        ASSERT_NEAR(y.at(t, j), want, bound * (scale * (1 + largest) + 1)) << n << " columns";
      }
    }
  }
}

TEST_P(RowOpsTest, LayerNormDoesNotDependOnNeighboursOrThreads) {
  const HostMatrix x = random_floats(50, 333, 1), weight = random_floats(1, 333, 2);
  const auto one = make_cpu_backend(1), three = make_cpu_backend(3);
  const HostMatrix whole = normalise(*one, x, norm_of(*one, weight, weight, 1e-5F));
  EXPECT_TRUE(
      same_bits(normalise(*three, x, norm_of(*three, weight, weight, 1e-5F)).data, whole.data));
  const auto norm = norm_of(*one, weight, weight, 1e-5F);
  const auto row = x.row(49);
  EXPECT_TRUE(
      same_bits(normalise(*one, row_of({row.begin(), row.end()}), norm).data, whole.row(49)));
}

TEST_P(RowOpsTest, LayerNormShowsNaN) {
  const auto backend = make_cpu_backend(1);
  HostMatrix x = random_floats(2, 37, 1);
  x.at(1, 36) = std::numeric_limits<float>::quiet_NaN();
  const HostMatrix weight = random_floats(1, 37, 2);
  const HostMatrix y = normalise(*backend, x, norm_of(*backend, weight, weight, 1e-5F));
  for (std::int64_t j = 0; j < 37; ++j) {
    EXPECT_FALSE(std::isnan(y.at(0, j)));
    EXPECT_TRUE(std::isnan(y.at(1, j)));
  }
}

TEST_P(RowOpsTest, AddendsInTheirOrderThenBiasThenResidual) {
  const auto backend = make_cpu_backend(1);
  // (2^24 + 1) - 2^24 = 0 in float32; another order, or the bias or residual earlier, keeps more.
  const std::vector<Tensor> addends = {upload(*backend, row_of({0x1p24F})),
                                       upload(*backend, row_of({1})),
                                       upload(*backend, row_of({-0x1p24F}))};
  const Tensor bias = upload(*backend, row_of({0.5}));
  Tensor residual = upload(*backend, row_of({3}));
  backend->update_residual(addends, {.bias = &bias, .residual = &residual});
  EXPECT_EQ(download(*backend, residual).at(0, 0), 3.5F);
}

TEST_P(RowOpsTest, UpdateThenNormIsTheTwoOpsInOne) {
  for (const std::int64_t n : {1, 17, 320, 333}) {
    const auto backend = make_cpu_backend(2);
    const HostMatrix a = random_integers(60, n, 1), b = random_integers(60, n, 2);
    const HostMatrix x = random_integers(60, n, 3), bias = random_integers(1, n, 4);
    const HostMatrix weight = random_floats(1, n, 5);
    const auto norm = norm_of(*backend, weight, bias, 1e-5F);
    const Tensor bias_tensor = upload(*backend, bias);
    Tensor residual = upload(*backend, x), normed = backend->allocate(60, n);
    // The second addend is memory of someone else, with rows further apart.
    HostMatrix wide(60, n + 3);
    for (std::int64_t t = 0; t < 60; ++t) std::ranges::copy(b.row(t), &wide.at(t, 2));
    const Tensor borrowed = Tensor::borrow(wide.data.data(), 60, n + 3).columns(2, n + 2);
    const std::vector<Tensor> addends = {upload(*backend, a), borrowed};
    backend->update_residual(
        addends, {.bias = &bias_tensor, .residual = &residual, .norm = &norm, .normed = &normed});
    HostMatrix want(60, n);
    for (std::int64_t t = 0; t < 60; ++t) {
      for (std::int64_t j = 0; j < n; ++j) {
        want.at(t, j) = x.at(t, j) + (a.at(t, j) + b.at(t, j) + bias.at(0, j));
      }
    }
    EXPECT_EQ(download(*backend, residual).data, want.data);
    EXPECT_TRUE(same_bits(download(*backend, normed).data, normalise(*backend, want, norm).data));
  }
}

TEST_P(RowOpsTest, UpdateWithoutNormLeavesNormedAlone) {
  const auto backend = make_cpu_backend(1);
  Tensor residual = upload(*backend, row_of({1, 2})), normed = upload(*backend, row_of({7, 8}));
  const std::vector<Tensor> addends = {upload(*backend, row_of({10, 20}))};
  backend->update_residual(addends, {.residual = &residual, .normed = &normed});
  EXPECT_EQ(download(*backend, residual).data, (std::vector<float>{11, 22}));
  EXPECT_EQ(download(*backend, normed).data, (std::vector<float>{7, 8}));
}

TEST(RowOps, RefuseShapesThatDoNotFit) {
  const auto backend = make_cpu_backend(1);
  Tensor residual = backend->allocate(2, 3);
  EXPECT_THROW(backend->update_residual({}, {.residual = &residual}), Error);
  const std::vector<Tensor> wrong = {backend->allocate(2, 4)};
  EXPECT_THROW(backend->update_residual(wrong, {.residual = &residual}), Error);
  const HostMatrix four(1, 4);
  EXPECT_THROW(backend->layer_norm(residual, norm_of(*backend, four, four, 0), residual), Error);
}

TEST(Gather, EmbedTakesColumnsOfTheMatrixAndZeroElsewhere) {
  for (const bool transposed : {false, true}) {
    const auto backend = make_cpu_backend(2);
    const HostMatrix table = random_floats(33, 130, 1);
    const auto packed = make_matrix(*backend, table, transposed);
    constexpr std::int32_t kFirst = 1000;
    const std::vector<std::int32_t> ids = {1000, 1129, 999, 1064, 1063, 1005, -1, 1129, 1130, 5000};
    const Tensor out = backend->allocate(std::ssize(ids), 33);
    backend->embed(*packed, ids, kFirst, out);
    const HostMatrix found = download(*backend, out);
    for (std::int64_t t = 0; t < found.rows; ++t) {
      const std::int64_t column = ids[static_cast<std::size_t>(t)] - kFirst;
      for (std::int64_t k = 0; k < 33; ++k) {
        EXPECT_EQ(found.at(t, k), column < 0 || column >= 130 ? 0.0F : table.at(k, column));
      }
    }
  }
}

TEST(Gather, EmbedOfAnEmptyShardIsZero) {
  const auto backend = make_cpu_backend(1);
  const auto packed = make_matrix(*backend, HostMatrix(5, 0));
  const std::vector<std::int32_t> ids = {-1, -2};
  const Tensor out = backend->allocate(2, 5);
  backend->embed(*packed, ids, 0, out);
  EXPECT_EQ(download(*backend, out).data, std::vector<float>(10, 0.0F));
}

TEST(Gather, RowsOfATable) {
  const auto backend = make_cpu_backend(1);
  const HostMatrix table = random_floats(9, 7, 1);
  const std::vector<std::int32_t> ids = {8, 0, 8};
  const Tensor out = backend->allocate(3, 7);
  backend->gather_rows(upload(*backend, table), ids, out);
  const HostMatrix found = download(*backend, out);
  EXPECT_TRUE(same_bits(found.row(0), table.row(8)));
  EXPECT_TRUE(same_bits(found.row(1), table.row(0)));
  EXPECT_TRUE(same_bits(found.row(2), table.row(8)));
}

TEST(Gather, IdsOutOfRangeAreABug) {
  const auto backend = make_cpu_backend(1);
  const Tensor table = backend->allocate(3, 5), out = backend->allocate(1, 5);
  const std::vector<std::int32_t> beyond = {3}, negative = {-1};
  EXPECT_THROW(backend->gather_rows(table, beyond, out), Error);
  EXPECT_THROW(backend->gather_rows(table, negative, out), Error);
}

}  // namespace
}  // namespace shardlm
