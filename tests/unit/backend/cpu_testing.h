// What the tests of the CPU back end share.
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "backend/cpu/cpu_backend.h"

namespace shardlm {

/// Half the spacing of float32 numbers near 1: the largest relative error of one rounding.
inline constexpr double kRounding = 0x1p-24;

/// A test that runs once for every instruction set of this machine.
class OnEverySimdTarget : public testing::TestWithParam<std::string> {
 private:
  ForcedSimdTarget forced_{GetParam()};
};

inline std::string simd_name(const testing::TestParamInfo<std::string>& test) { return test.param; }

#define SHARDLM_ON_EVERY_SIMD_TARGET(suite) \
  INSTANTIATE_TEST_SUITE_P(Simd, suite, testing::ValuesIn(cpu_simd_targets()), simd_name)

/// A matrix on the host, row-major.
struct HostMatrix {
  std::int64_t rows = 0, cols = 0;
  std::vector<float> data = {};

  HostMatrix(std::int64_t n_rows, std::int64_t n_cols)
      : rows(n_rows), cols(n_cols), data(static_cast<std::size_t>(n_rows * n_cols)) {}
  float& at(std::int64_t r, std::int64_t c) { return data[static_cast<std::size_t>(r * cols + c)]; }
  float at(std::int64_t r, std::int64_t c) const {
    return data[static_cast<std::size_t>(r * cols + c)];
  }
  std::span<const float> row(std::int64_t r) const {
    return std::span(data).subspan(static_cast<std::size_t>(r * cols),
                                   static_cast<std::size_t>(cols));
  }
};

/// Evenly spread over [-1, 1).
inline HostMatrix random_floats(std::int64_t rows, std::int64_t cols, unsigned seed) {
  HostMatrix m(rows, cols);
  std::mt19937 random(seed);
  for (float& v : m.data) v = static_cast<float>(static_cast<std::int32_t>(random())) * 0x1p-31F;
  return m;
}

/// Whole numbers from -4 to 4: their sums of products are exact in float32.
inline HostMatrix random_integers(std::int64_t rows, std::int64_t cols, unsigned seed) {
  HostMatrix m(rows, cols);
  std::mt19937 random(seed);
  for (float& v : m.data) v = static_cast<float>(static_cast<int>(random() % 9) - 4);
  return m;
}

inline Tensor upload(Backend& backend, const HostMatrix& m) {
  const Tensor t = backend.allocate(m.rows, m.cols);
  backend.upload(m.data, t);
  return t;
}

inline HostMatrix download(Backend& backend, const Tensor& t) {
  HostMatrix m(t.rows(), t.cols());
  backend.download(t, m.data);
  return m;
}

/// `m` as [in, out]; with `transposed`, read from its transpose's rows.
inline std::unique_ptr<WeightMatrix> make_matrix(Backend& backend, const HostMatrix& m,
                                                 bool transposed = false) {
  const auto read_row = [&m, transposed](std::int64_t row, std::span<float> to) {
    for (std::size_t i = 0; i < to.size(); ++i) {
      const auto other = static_cast<std::int64_t>(i);
      to[i] = transposed ? m.at(other, row) : m.at(row, other);
    }
  };
  return backend.make_matrix(
      {.in = m.rows, .out = m.cols, .rows_are_outputs = transposed, .read_row = read_row});
}

/// Equal in every bit, NaNs and signs of zero included.
inline bool same_bits(std::span<const float> a, std::span<const float> b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (std::bit_cast<std::uint32_t>(a[i]) != std::bit_cast<std::uint32_t>(b[i])) return false;
  }
  return true;
}

}  // namespace shardlm
