#include "backend/cpu/matmul_quantised.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <span>

#include "backend/cpu/cpu_features.h"
#include "backend/cpu/matmul.h"
#include "backend/cpu/packed_matrix.h"
#include "tests/unit/backend/cpu_testing.h"

namespace shardlm {
namespace {

/// Every instruction set, and the best one without what some of its processors lack.
std::vector<std::string> ways() {
  std::vector<std::string> all = cpu_simd_targets();
  all.push_back(all.front() + "_without_vnni");
  all.push_back(all.front() + "_without_amx");
  return all;
}

class MatmulQuantisedTest : public testing::TestWithParam<std::string> {
 protected:
  bool fused() const {
    return GetParam() != "SSE4" && GetParam() != "SCALAR" && GetParam() != "EMU128";
  }

 private:
  static std::string target() { return GetParam().substr(0, GetParam().find('_')); }
  static CpuFeatures features() {
    CpuFeatures all = detected_cpu_features();
    all.avx512_vnni = all.avx512_vnni && !GetParam().ends_with("_without_vnni");
    all.amx_int8 = all.amx_int8 && target() == GetParam();
    return all;
  }
  ForcedSimdTarget forced_{target()};
  ForcedCpuFeatures forced_features_{features()};
};
INSTANTIATE_TEST_SUITE_P(Ways, MatmulQuantisedTest, testing::ValuesIn(ways()), simd_name);

PackedMatrix packed(const HostMatrix& w, DType dtype, ThreadPool& threads) {
  const auto read_row = [&](std::int64_t row, std::span<float> to) {
    std::ranges::copy(w.row(row), to.begin());
  };
  WeightArena arena;
  return PackedMatrix(
      {.in = w.rows, .out = w.cols, .rows_are_outputs = false, .read_row = read_row}, dtype, arena,
      threads);
}

HostMatrix multiply(const HostMatrix& x, const PackedMatrix& w, const HostMatrix& bias,
                    ThreadPool& threads) {
  HostMatrix out(x.rows, w.out()), in = x, init = bias;
  Matmul matmul(threads);
  const Tensor bias_tensor = Tensor::borrow(init.data.data(), 1, w.out());
  matmul.run(Tensor::borrow(in.data.data(), x.rows, x.cols), w, &bias_tensor, std::nullopt,
             Tensor::borrow(out.data.data(), x.rows, w.out()));
  return out;
}

HostMatrix first_rows(const HostMatrix& m, std::int64_t rows) {
  HostMatrix part(rows, m.cols);
  std::copy_n(m.data.begin(), part.data.size(), part.data.begin());
  return part;
}

struct Expected {
  double value, bound;
};

/// In double, over what the stored weights and the activations' bytes are worth.
Expected expected(const QuantisedRows& x, std::int64_t row, std::span<const float> w, float bias) {
  double sum = bias, size = std::abs(sum);
  for (std::size_t k = 0; k < w.size(); ++k) {
    const auto i = static_cast<std::int64_t>(k);
    const double term = double{x.scales(row)[i / 32]} * x.values(row)[i] * double{w[k]};
    sum += term;
    size += std::abs(term);
  }
  // A block adds three roundings: of the scales' product, of its product with the sum of whole
  // numbers (where not fused) and of the addition; a stored weight is rounded once in w.
  return {sum, static_cast<double>(x.blocks() + 4) * kRounding * size + 1e-37};
}

void expect_products(const HostMatrix& x, const HostMatrix& found, const PackedMatrix& w,
                     const HostMatrix& bias) {
  QuantisedRows rows;
  rows.resize(x.rows, x.cols);
  rows.fill(x.data.data(), x.cols, 0, x.rows);
  std::vector<float> column(static_cast<std::size_t>(x.cols));
  for (std::int64_t j = 0; j < w.out(); ++j) {
    w.read_output(j, column.data());
    for (std::int64_t r = 0; r < x.rows; ++r) {
      const Expected e = expected(rows, r, column, bias.at(0, j));
      ASSERT_NEAR(found.at(r, j), e.value, e.bound)
          << x.cols << " inputs, output " << j << " of " << w.out() << ", row " << r;
    }
  }
}

TEST_P(MatmulQuantisedTest, IsTheProductOfWhatIsStoredAtOddShapes) {
  ThreadPool threads(2);
  for (const DType dtype : {DType::q8, DType::q4}) {
    for (const std::int64_t in : {1, 31, 32, 33, 64, 65, 1733}) {
      for (const std::int64_t out : {1, 63, 64, 65, 1733}) {
        if (in * out > 200'000) continue;
        const HostMatrix x = random_floats(3, in, 1), bias = random_floats(1, out, 3);
        const PackedMatrix w = packed(random_floats(in, out, 2), dtype, threads);
        expect_products(x, multiply(x, w, bias, threads), w, bias);
      }
    }
  }
}

TEST_P(MatmulQuantisedTest, TheLargestSumsOfWholeNumbersDoNotSaturate) {
  ThreadPool threads(1);
  for (const float sign : {1.0F, -1.0F}) {
    HostMatrix x(2, 64), w(64, 65);
    const HostMatrix bias(1, 65);
    std::ranges::fill(x.data, 127.0F);
    std::ranges::fill(w.data, 127 * sign);
    const HostMatrix found = multiply(x, packed(w, DType::q8, threads), bias, threads);
    for (const float value : found.data) ASSERT_EQ(value, 64 * 127 * 127 * sign);
  }
}

TEST_P(MatmulQuantisedTest, AnyRowsAloneOrInABatchOnAnyThreadsAndInstructions) {
  for (const DType dtype : {DType::q8, DType::q4}) {
    const HostMatrix x = random_floats(128, 1100, 1), bias = random_floats(1, 200, 3);
    ThreadPool one(1);
    const PackedMatrix w = packed(random_floats(1100, 200, 2), dtype, one);
    const HostMatrix whole = multiply(x, w, bias, one);
    expect_products(first_rows(x, 2), first_rows(whole, 2), w, bias);
    for (const int n : {2, 3, 7}) {
      ThreadPool threads(n);
      for (const std::int64_t rows : {1, 8, 9, 128}) {
        ASSERT_TRUE(same_bits(multiply(first_rows(x, rows), w, bias, threads).data,
                              first_rows(whole, rows).data))
            << n << " threads, " << rows << " rows";
      }
    }
    for (std::int64_t rows = 1; rows <= 17; ++rows) {
      ASSERT_TRUE(
          same_bits(multiply(first_rows(x, rows), w, bias, one).data, first_rows(whole, rows).data))
          << rows << " rows";
    }
    if (!fused()) continue;
    const ForcedSimdTarget best(cpu_simd_targets().front());
    const ForcedCpuFeatures features(detected_cpu_features());
    ASSERT_TRUE(same_bits(multiply(x, w, bias, one).data, whole.data));
  }
}

TEST_P(MatmulQuantisedTest, SomeColumnsAreThoseOfThePanel) {
  ThreadPool one(1);
  const HostMatrix x = random_floats(9, 100, 1), init = random_floats(1, 64, 3);
  QuantisedRows rows;
  rows.resize(x.rows, x.cols);
  rows.fill(x.data.data(), x.cols, 0, x.rows);
  for (const DType dtype : {DType::q8, DType::q4}) {
    const PackedMatrix w = packed(random_floats(100, 64, 2), dtype, one);
    for (const std::int64_t count : {1, 5, 9}) {
      HostMatrix whole(count, 64), parts(count, 64);
      const auto product = [&](HostMatrix& out, std::int64_t first, std::int64_t columns) {
        multiply_panel_quantised({.x = &rows,
                                  .first_row = 9 - count,
                                  .rows = count,
                                  .dtype = dtype,
                                  .panel = w.panel(0),
                                  .first_column = first,
                                  .columns = columns,
                                  .init = init.data.data() + first,
                                  .out = out.data.data() + first,
                                  .out_stride = 64});
      };
      product(whole, 0, 64);
      product(parts, 0, 16);
      product(parts, 16, 48);
      EXPECT_TRUE(same_bits(whole.data, parts.data)) << count << " rows";
    }
  }
}

TEST_P(MatmulQuantisedTest, ColumnShardsHaveTheBitsOfTheWhole) {
  ThreadPool threads(2);
  for (const DType dtype : {DType::q8, DType::q4}) {
    const HostMatrix x = random_floats(7, 150, 1), w = random_floats(150, 197, 2);
    const HostMatrix bias = random_floats(1, 197, 3);
    const HostMatrix whole = multiply(x, packed(w, dtype, threads), bias, threads);
    const std::int64_t cuts[] = {0, 1, 40, 104, 197};
    for (int c = 0; c < 4; ++c) {
      HostMatrix shard(w.rows, cuts[c + 1] - cuts[c]), shard_bias(1, shard.cols);
      for (std::int64_t j = 0; j < shard.cols; ++j) {
        shard_bias.at(0, j) = bias.at(0, cuts[c] + j);
        for (std::int64_t k = 0; k < w.rows; ++k) shard.at(k, j) = w.at(k, cuts[c] + j);
      }
      const HostMatrix found = multiply(x, packed(shard, dtype, threads), shard_bias, threads);
      for (std::int64_t t = 0; t < x.rows; ++t) {
        const auto columns = whole.row(t).subspan(static_cast<std::size_t>(cuts[c]),
                                                  static_cast<std::size_t>(shard.cols));
        EXPECT_TRUE(same_bits(found.row(t), columns)) << "row " << t << " of shard " << c;
      }
    }
  }
}

TEST_P(MatmulQuantisedTest, NoFiniteNumberReachesItsRowAndColumnOnly) {
  ThreadPool threads(2);
  for (const DType dtype : {DType::q8, DType::q4}) {
    HostMatrix x = random_floats(8, 65, 1), w = random_floats(65, 65, 2);
    x.at(3, 64) = std::numeric_limits<float>::quiet_NaN();
    x.at(5, 0) = std::numeric_limits<float>::infinity();
    w.at(0, 64) = std::numeric_limits<float>::quiet_NaN();
    const HostMatrix found = multiply(x, packed(w, dtype, threads), HostMatrix(1, 65), threads);
    for (std::int64_t t = 0; t < 8; ++t) {
      for (std::int64_t j = 0; j < 65; ++j) {
        ASSERT_EQ(std::isnan(found.at(t, j)), t == 3 || t == 5 || j == 64) << t << " " << j;
      }
    }
  }
}

TEST_P(MatmulQuantisedTest, NothingInMakesTheBias) {
  ThreadPool threads(1);  // which has a next panel to look ahead to
  const HostMatrix bias = random_floats(1, 70, 1);
  for (const DType dtype : {DType::q8, DType::q4}) {
    for (const std::int64_t rows : {1, 9}) {
      const HostMatrix found =
          multiply(HostMatrix(rows, 0), packed(HostMatrix(0, 70), dtype, threads), bias, threads);
      for (std::int64_t t = 0; t < rows; ++t) EXPECT_TRUE(same_bits(found.row(t), bias.row(0)));
    }
  }
}

TEST(CpuFeatures, ForcedOnesNeverExceedTheMachines) {
  const CpuFeatures all{
      .avx512_vnni = true, .avx512_bf16 = true, .amx_bf16 = true, .amx_int8 = true};
  {
    const ForcedCpuFeatures none(CpuFeatures{});
    EXPECT_EQ(cpu_features(), CpuFeatures{});
  }
  {
    const ForcedCpuFeatures forced(all);
    EXPECT_EQ(cpu_features(), detected_cpu_features());
  }
  EXPECT_EQ(cpu_features(), detected_cpu_features());
}

}  // namespace
}  // namespace shardlm
