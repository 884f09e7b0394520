#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "tools/gpu_check/kernel_checks.h"

namespace shardlm::gpu_check {
namespace {

struct Shape {
  std::int64_t rows, in, out;
};
constexpr std::array<Shape, 6> kShapes = {
    {{1, 1, 1}, {3, 20, 101}, {33, 65, 51}, {16, 128, 192}, {2, 300, 8}, {2, 0, 5}}};

struct Variant {
  bool rows_are_outputs, bias;
  std::optional<Activation> activation;
  bool float_out;  ///< float32 whatever the activations' type: partial sums and logits
};
constexpr std::array<Variant, 5> kVariants = {{
    {false, true, std::nullopt, false},
    {false, true, Activation::gelu_tanh, false},  // one that cuBLASLt fuses
    {false, true, Activation::silu, false},       // one that it does not
    {false, false, std::nullopt, true},
    {true, false, std::nullopt, true},
}};

std::string text(const KernelCheck& check, const Shape& shape, const Variant& variant) {
  return check.where() + ", matmul [" + std::to_string(shape.rows) + ", " +
         std::to_string(shape.in) + "] x [" + std::to_string(shape.in) + ", " +
         std::to_string(shape.out) + "]" + (variant.rows_are_outputs ? ", rows are outputs" : "") +
         (variant.activation ? ", activation" : "") + (variant.float_out ? ", to float32" : "");
}

void check_product(const KernelCheck& check, const Shape& shape, const Variant& variant) {
  Backend& backend = check.backend;
  const DType dtype = check.dtype();
  const auto in = static_cast<std::size_t>(shape.in), out = static_cast<std::size_t>(shape.out);
  const auto x = random_values(shape.rows * shape.in, 31, dtype);
  const auto w = random_values(shape.in * shape.out, 32, dtype);
  const auto bias = random_values(shape.out, 33, dtype);
  // Row k of the source holds input k's weights, or row j output j's; w is [in, out].
  const auto weight = [&](std::size_t k, std::size_t j) { return w[k * out + j]; };
  const auto matrix =
      backend.make_matrix({.in = shape.in,
                           .out = shape.out,
                           .rows_are_outputs = variant.rows_are_outputs,
                           .read_row = [&](std::int64_t row, std::span<float> to) {
                             const auto r = static_cast<std::size_t>(row);
                             for (std::size_t i = 0; i < to.size(); ++i) {
                               to[i] = variant.rows_are_outputs ? weight(i, r) : weight(r, i);
                             }
                           }});
  std::vector<double> want;
  double most_terms = 0, largest = 0;
  for (std::size_t t = 0; t < static_cast<std::size_t>(shape.rows); ++t) {
    for (std::size_t j = 0; j < out; ++j) {
      double sum = variant.bias ? bias[j] : 0, terms = std::abs(sum);
      for (std::size_t k = 0; k < in; ++k) {
        sum += static_cast<double>(x[t * in + k]) * weight(k, j);
        terms += std::abs(static_cast<double>(x[t * in + k]) * weight(k, j));
      }
      most_terms = std::max(most_terms, terms);
      largest = std::max(largest, std::abs(sum));
      want.push_back(variant.activation ? activated(*variant.activation, sum) : sum);
    }
  }
  const Tensor bias_on_device = put_activations(backend, 1, shape.out, bias);
  const Tensor x_on_device = put_activations(backend, shape.rows, shape.in, x);
  const Tensor result = variant.float_out ? backend.allocate(shape.rows, shape.out)
                                          : backend.allocate_activation(shape.rows, shape.out);
  const Tensor* const b = variant.bias ? &bias_on_device : nullptr;
  if (variant.activation) {
    backend.matmul_activate(x_on_device, *matrix, b, *variant.activation, result);
  } else {
    backend.matmul(x_on_device, *matrix, b, result);
  }
  // In float32, a rounding for each term; where the bias is a kernel of its own, the product is
  // rounded to the type before it and the sum after it.
  const double own = variant.float_out ? 0 : 2.5 * rounding(dtype) * largest;
  const double of_sum = (static_cast<double>(shape.in) + 8) * 0x1p-24 * most_terms;
  check.findings.near(text(check, shape, variant), get(backend, result), want,
                      1.2 * of_sum + own + 0x1p-100);
}

}  // namespace

void check_matmul(const KernelCheck& check) {
  for (const Shape& shape : kShapes) {
    for (const Variant& variant : kVariants) check_product(check, shape, variant);
  }
}

}  // namespace shardlm::gpu_check
