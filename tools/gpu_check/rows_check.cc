#include <algorithm>
#include <array>
#include <cmath>

#include "tools/gpu_check/kernel_checks.h"

namespace shardlm::gpu_check {
namespace {

struct Shape {
  std::int64_t rows, cols;
};
// 8200 columns are more than a block holds in registers.
constexpr std::array<Shape, 6> kShapes = {
    {{1, 1}, {3, 21}, {5, 63}, {2, 768}, {1, 1600}, {1, 8200}}};

std::string text(const KernelCheck& check, const char* op, const Shape& shape) {
  return check.where() + ", " + op + " [" + std::to_string(shape.rows) + ", " +
         std::to_string(shape.cols) + "]";
}

/// A norm of values in [-1, 1] on host and device.
struct Norm {
  Norm(Backend& backend, std::int64_t n)
      : weight(random_values(n, 21)), bias(random_values(n, 22)) {
    params = {.weight = put_floats(backend, 1, n, weight),
              .bias = put_floats(backend, 1, n, bias),
              .epsilon = 1e-5F};
  }
  std::vector<float> weight, bias;
  LayerNormParams params;
};

// Float32 sums of n terms of size m in trees of some 20 levels have errors below levels * 2^-24 m;
// divided by the deviation that is an error of the normal value, to which its own roundings come.
void compare_normed(const KernelCheck& check, const std::string& what, const Shape& shape,
                    const std::vector<float>& x, const Norm& norm, const std::vector<float>& got) {
  const auto n = static_cast<std::size_t>(shape.cols);
  for (std::size_t t = 0; t < static_cast<std::size_t>(shape.rows); ++t) {
    const std::span row(x.data() + t * n, n);
    double mean = 0, variance = 0, largest = 0;
    for (const double value : row) mean += value / static_cast<double>(n);
    for (const double value : row) {
      variance += (value - mean) * (value - mean) / static_cast<double>(n);
      largest = std::max(largest, std::abs(value));
    }
    const double scale = 1 / std::sqrt(variance + norm.params.epsilon);
    std::vector<double> want;
    for (std::size_t j = 0; j < n; ++j) {
      want.push_back((row[j] - mean) * scale * norm.weight[j] + norm.bias[j]);
    }
    const double levels = 24 + static_cast<double>(n) / 4096;
    check.findings.near(what, std::span(got).subspan(t * n, n), want,
                        levels * 0x1p-24 * (2 * largest * scale + 1),
                        1.01 * rounding(check.dtype()));
  }
}

void check_layer_norm(const KernelCheck& check, const Shape& shape) {
  Backend& backend = check.backend;
  const auto values = random_values(shape.rows * shape.cols, 5, DType::f32, 3);
  const Norm norm(backend, shape.cols);
  const Tensor x = put_floats(backend, shape.rows, shape.cols, values);
  const Tensor out = backend.allocate_activation(shape.rows, shape.cols);
  backend.layer_norm(x, norm.params, out);
  compare_normed(check, text(check, "layer_norm", shape), shape, values, norm, get(backend, out));
}

// Three addends, a bias and a norm.
void check_update_residual(const KernelCheck& check, const Shape& shape) {
  Backend& backend = check.backend;
  const std::int64_t n = shape.rows * shape.cols;
  const auto bias = random_values(shape.cols, 7), start = random_values(n, 8);
  std::vector<double> want(start.begin(), start.end());
  std::vector<Tensor> addends;
  for (std::uint32_t a = 0; a < 3; ++a) {
    const auto values = random_values(n, 10 + a);
    addends.push_back(put_floats(backend, shape.rows, shape.cols, values));
    for (std::size_t i = 0; i < want.size(); ++i) want[i] += values[i];
  }
  for (std::size_t i = 0; i < want.size(); ++i) {
    want[i] += bias[i % static_cast<std::size_t>(shape.cols)];
  }
  const Norm norm(backend, shape.cols);
  const Tensor bias_on_device = put_floats(backend, 1, shape.cols, bias);
  Tensor residual = put_floats(backend, shape.rows, shape.cols, start);
  Tensor normed = backend.allocate_activation(shape.rows, shape.cols);
  backend.update_residual(
      addends,
      {.bias = &bias_on_device, .residual = &residual, .norm = &norm.params, .normed = &normed});
  const auto x = get(backend, residual);
  const std::string what = text(check, "update_residual", shape);
  check.findings.near(what, x, want, 5 * 5 * 0x1p-24);  // four sums of up to five
  compare_normed(check, what + " and norm", shape, x, norm, get(backend, normed));
}

void check_activations(const KernelCheck& check) {
  const Shape shape{3, 101};
  for (const Activation kind : {Activation::gelu_tanh, Activation::gelu_erf, Activation::gelu_quick,
                                Activation::relu, Activation::silu, Activation::tanh}) {
    const auto values = random_values(shape.rows * shape.cols, 6, check.dtype(), 4);
    const Tensor x = put_activations(check.backend, shape.rows, shape.cols, values);
    check.backend.activate(kind, x);
    std::vector<double> want;
    for (const double value : values) want.push_back(activated(kind, value));
    // Half of x times (1 + something near -1): a few roundings of x itself.
    check.findings.near(
        text(check, "activate", shape) + " kind " + std::to_string(static_cast<int>(kind)),
        get(check.backend, x), want, 8 * 4 * 0x1p-24, 1.01 * rounding(check.dtype()));
  }
}

// Ids before, in and after the shard, and padding: exact, since nothing is computed.
void check_tables(const KernelCheck& check, const Shape& shape) {
  Backend& backend = check.backend;
  constexpr std::int64_t kRows = 7;
  constexpr std::int32_t kFirst = 20;
  const auto n = static_cast<std::size_t>(shape.cols);
  const auto values = random_values(kRows * shape.cols, 9, check.dtype());
  const auto matrix = backend.make_matrix(
      {.in = shape.cols,
       .out = kRows,
       .rows_are_outputs = true,
       .read_row = [&](std::int64_t row, std::span<float> to) {
         std::copy_n(values.data() + static_cast<std::size_t>(row) * n, n, to.data());
       }});
  const std::vector<std::int32_t> ids = {kFirst,     -1,         kFirst + 6,
                                         kFirst - 1, kFirst + 7, kFirst + 3};
  const std::vector<std::int32_t> rows = {6, -1, 0, 3, 3};
  const auto compare = [&](const char* op, const Tensor& out, const std::vector<std::int32_t>& of,
                           std::int32_t first) {
    std::vector<double> want;
    for (const std::int32_t id : of) {
      const std::int64_t row = id - first;
      for (std::size_t j = 0; j < n; ++j) {
        want.push_back(0 <= row && row < kRows ? values[static_cast<std::size_t>(row) * n + j] : 0);
      }
    }
    check.findings.near(text(check, op, shape), get(backend, out), want, 0);
  };
  const Tensor embedded = backend.allocate(std::ssize(ids), shape.cols);
  backend.embed(*matrix, ids, kFirst, embedded);
  compare("embed", embedded, ids, kFirst);
  const Tensor table = put_activations(backend, kRows, shape.cols, values);
  const Tensor gathered = backend.allocate_activation(std::ssize(rows), shape.cols);
  backend.gather_rows(table, rows, gathered);
  compare("gather_rows", gathered, rows, 0);
}

}  // namespace

void check_rows(const KernelCheck& check) {
  for (const Shape& shape : kShapes) {
    check_layer_norm(check, shape);
    check_update_residual(check, shape);
    check_tables(check, shape);
  }
  check_activations(check);
}

}  // namespace shardlm::gpu_check
