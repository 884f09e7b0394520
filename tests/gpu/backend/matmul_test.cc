// Matrix multiplication against double loops: every type, both ways a checkpoint keeps a matrix.
#include <cmath>

#include "base/error.h"
#include "tests/gpu/backend/device_backend.h"

namespace shardlm::cuda {
namespace {

double gelu_tanh(double x) {
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

struct Case {
  DType dtype;
  bool rows_are_outputs;
};

class Multiply : public testing::TestWithParam<Case> {
 protected:
  DType dtype() const { return GetParam().dtype; }
  bool fused_ = true;

  /// out[t, j] = act(bias[j] + sum over k of x[t, k] w[k, j]) against a double loop.
  void expect_product(std::int64_t rows, std::int64_t in, std::int64_t out_cols, bool with_bias,
                      bool with_gelu, bool float_out) {
    CudaBackend backend({.precision = all_of(dtype())});
    const bool turned = GetParam().rows_are_outputs;
    const HostMatrix x = random_matrix(rows, in, 1, dtype());
    const HostMatrix w =
        turned ? random_matrix(out_cols, in, 2, dtype()) : random_matrix(in, out_cols, 2, dtype());
    const HostMatrix bias = random_matrix(1, out_cols, 3, dtype());
    const auto matrix = make_matrix(backend, w, turned);
    const Tensor on_device = upload(backend, x, true);
    const Tensor b = float_out ? upload(backend, bias) : upload(backend, bias, true);
    Tensor y =
        float_out ? backend.allocate(rows, out_cols) : backend.allocate_activation(rows, out_cols);
    if (with_gelu) {
      backend.matmul_activate(on_device, *matrix, with_bias ? &b : nullptr, Activation::gelu_tanh,
                              y);
    } else {
      backend.matmul(on_device, *matrix, with_bias ? &b : nullptr, y);
    }
    const HostMatrix found = download(backend, y);
    const double out_epsilon = float_out ? 0x1p-24 : epsilon_of(dtype());
    for (std::int64_t t = 0; t < rows; ++t) {
      for (std::int64_t j = 0; j < out_cols; ++j) {
        double product = 0, size = with_bias ? std::abs(bias.at(0, j)) : 0;
        for (std::int64_t k = 0; k < in; ++k) {
          const double term = double{x.at(t, k)} * (turned ? w.at(j, k) : w.at(k, j));
          product += term;
          size += std::abs(term);
        }
        const double sum = product + (with_bias ? bias.at(0, j) : 0);
        const double truth = with_gelu ? gelu_tanh(sum) : sum;
        // A chain of `in` float32 additions, then one rounding to the result's type (GELU's slope
        // is at most 1.13).
        // Unfused, the product is rounded before the bias joins it: another rounding, of the
        // product.
        const double tolerance = 1.2 * (static_cast<double>(in) * 0x1p-24 * size) +
                                 2 * out_epsilon * std::abs(truth) +
                                 (fused_ ? 0 : 1.2 * out_epsilon * std::abs(product)) + 1e-7;
        ASSERT_TRUE(std::abs(found.at(t, j) - truth) <= tolerance)
            << t << "," << j << ": " << found.at(t, j) << " for " << truth;
      }
    }
  }
};

TEST_P(Multiply, IsTheSumOfProducts) {
  for (const std::int64_t rows : {1, 3, 16}) expect_product(rows, 33, 65, false, false, false);
  expect_product(2, 64, 128, false, false, true);
}
TEST_P(Multiply, AddsABias) {
  expect_product(3, 17, 31, true, false, false);
  expect_product(3, 17, 31, true, false, true);
}
TEST_P(Multiply, AppliesGelu) {
  expect_product(3, 17, 31, true, true, false);
  expect_product(3, 16, 32, false, true, false);
}
TEST_P(Multiply, WithoutAFusedEpilogueGivesTheSame) {
  setenv("SHARDLM_FAKE_LT_NO_EPILOGUE", "1", 1);
  fused_ = false;
  expect_product(3, 17, 31, true, true, false);
  expect_product(3, 17, 31, true, false, false);
  unsetenv("SHARDLM_FAKE_LT_NO_EPILOGUE");
}
TEST_P(Multiply, OfNothingIsTheBias) {
  expect_product(3, 0, 5, true, false, false);
  expect_product(3, 0, 5, false, false, true);
  expect_product(0, 4, 5, true, false, false);
  expect_product(3, 4, 0, true, false, false);
}

INSTANTIATE_TEST_SUITE_P(All, Multiply,
                         testing::Values(Case{DType::f32, false}, Case{DType::f32, true},
                                         Case{DType::f16, false}, Case{DType::f16, true},
                                         Case{DType::bf16, false}, Case{DType::bf16, true}),
                         [](const auto& instance) {
                           return std::string(name(instance.param.dtype)) +
                                  (instance.param.rows_are_outputs ? "_out_in" : "_in_out");
                         });

TEST(Multiply, OtherActivationsFollowTheProduct) {
  CudaBackend backend({});
  const HostMatrix x = random_matrix(2, 8, 1), w = random_matrix(8, 9, 2),
                   b = random_matrix(1, 9, 3);
  const auto matrix = make_matrix(backend, w, false);
  const Tensor in = upload(backend, x), bias = upload(backend, b);
  const Tensor plain = backend.allocate(2, 9), relu = backend.allocate(2, 9);
  backend.matmul(in, *matrix, &bias, plain);
  backend.matmul_activate(in, *matrix, &bias, Activation::relu, relu);
  const HostMatrix expected = download(backend, plain), found = download(backend, relu);
  for (std::size_t i = 0; i < found.data.size(); ++i) {
    EXPECT_EQ(found.data[i], std::max(expected.data[i], 0.0F));
  }
}

TEST(Multiply, ShapesAndTypesThatDisagreeAreABug) {
  CudaBackend backend({.precision = all_of(DType::bf16)});
  const auto matrix = make_matrix(backend, HostMatrix(4, 6), false);
  const Tensor x = backend.allocate_activation(2, 4), y = backend.allocate_activation(2, 6);
  const Tensor floats = backend.allocate(2, 4), bias = backend.allocate(1, 6);
  EXPECT_NO_THROW(backend.matmul(x, *matrix, nullptr, y));
  EXPECT_THROW(backend.matmul(y, *matrix, nullptr, y), Error);
  EXPECT_THROW(backend.matmul(floats, *matrix, nullptr, y), Error);
  EXPECT_THROW(backend.matmul(x, *matrix, &bias, y), Error);  // float32 beside bfloat16
}

}  // namespace
}  // namespace shardlm::cuda
