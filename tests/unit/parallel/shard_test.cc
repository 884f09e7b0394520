// Which elements of a full tensor a shard takes, in either orientation of the file.
#include "parallel/shard.h"

#include <gtest/gtest.h>

#include <cstring>

#include "backend/cpu/cpu_backend.h"
#include "parallel/attention.h"

namespace shardlm {
namespace {

/// A matrix in memory whose element [k][j] is 100 k + j, stored as [in, out] or as [out, in].
struct Matrix {
  Matrix(std::int64_t in, std::int64_t out, bool turned)
      : values(static_cast<std::size_t>(in * out)) {
    for (std::int64_t k = 0; k < in; ++k) {
      for (std::int64_t j = 0; j < out; ++j) {
        values[static_cast<std::size_t>(turned ? j * in + k : k * out + j)] =
            static_cast<float>(100 * k + j);
      }
    }
    host.in = in;
    host.out = out;
    host.rows_are_outputs = turned;
    host.tensor.name = "w";
    host.tensor.shape = turned ? std::vector{out, in} : std::vector{in, out};
    host.tensor.bytes = std::as_bytes(std::span(values));
  }
  std::vector<float> values;
  HostMatrix host;
};

class NoWeights final : public WeightSource {
 public:
  HostTensor tensor(const std::string&, const std::vector<std::int64_t>&) override { return {}; }
  HostMatrix linear(const std::string&, std::int64_t, std::int64_t) override { return {}; }
};

// Row k of the matrix, by multiplying the unit vector e_k with it.
std::vector<float> matrix_row(Backend& backend, const WeightMatrix& w, std::int64_t k) {
  std::vector<float> unit(static_cast<std::size_t>(w.in()), 0),
      row(static_cast<std::size_t>(w.out()));
  unit[static_cast<std::size_t>(k)] = 1;
  const Tensor x = backend.allocate(1, w.in()), y = backend.allocate(1, w.out());
  backend.upload(unit, x);
  backend.matmul(x, w, nullptr, y);
  backend.download(y, row);
  return row;
}

class Orientation : public testing::TestWithParam<bool> {
 protected:
  std::unique_ptr<Backend> backend = make_cpu_backend(1);
  NoWeights source;
};

TEST_P(Orientation, columns_of_several_ranges_stand_side_by_side) {
  const Matrix m(3, 10, GetParam());
  const auto w = load_columns(*backend, source, m.host, {{1, 3}, {7, 8}});
  EXPECT_EQ(w->in(), 3);
  EXPECT_EQ(matrix_row(*backend, *w, 2), (std::vector<float>{201, 202, 207}));
  EXPECT_EQ(source.bytes_read(), 3 * 3 * sizeof(float));
}

TEST_P(Orientation, rows_are_those_of_the_range) {
  const Matrix m(6, 2, GetParam());
  const auto w = load_rows(*backend, source, m.host, {4, 6});
  EXPECT_EQ(matrix_row(*backend, *w, 0), (std::vector<float>{400, 401}));
  EXPECT_EQ(matrix_row(*backend, *w, 1), (std::vector<float>{500, 501}));
}

TEST_P(Orientation, an_empty_share_is_a_matrix_without_inputs) {
  const Matrix m(6, 2, GetParam());
  EXPECT_EQ(load_rows(*backend, source, m.host, {6, 6})->in(), 0);
  EXPECT_EQ(load_columns(*backend, source, m.host, {{2, 2}})->out(), 0);
}

INSTANTIATE_TEST_SUITE_P(Both, Orientation, testing::Bool());

TEST(FusedQkv, each_third_is_split_by_heads) {
  // 4 heads of 2: q is columns 0-7, k 8-15, v 16-23; heads 1 and 2 own 2-5 of each.
  EXPECT_EQ(fused_qkv_columns({1, 3}, 4, 2), (std::vector<Range>{{2, 6}, {10, 14}, {18, 22}}));
}

}  // namespace
}  // namespace shardlm
