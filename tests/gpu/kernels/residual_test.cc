#include "backend/cuda/kernels/residual.h"

#include "tests/gpu/kernels/device.h"

namespace shardlm::cuda {
namespace {

using Layout = DeviceMatrix::Layout;
constexpr double kEpsilon = 0x1p-24;  // of one float32 rounding
constexpr std::int64_t kRows = 3;
const std::vector<DType> kTypes{DType::f32, DType::f16, DType::bf16};

class LayerNorm : public KernelTest {};
SHARDLM_EVERY_THREAD_ORDER(LayerNorm);
class UpdateResidual : public KernelTest {};
SHARDLM_EVERY_THREAD_ORDER(UpdateResidual);

/// LayerNorm's vectors on host and device.
struct Norm {
  Norm(std::int64_t n, std::int64_t offset)
      : weight(random_values(n + offset, 21)),
        bias(random_values(n + offset, 22)),
        device_weight(weight),
        device_bias(bias),
        params{device_weight.data() + offset, device_bias.data() + offset, 1e-5F} {
    weight.erase(weight.begin(), weight.begin() + offset);
    bias.erase(bias.begin(), bias.begin() + offset);
  }
  std::vector<float> weight, bias;
  DeviceArray<float> device_weight, device_bias;
  NormParams params;
};

/// Each row of `got` against LayerNorm of the row of x in double precision.
///
/// Float32 sums of n terms in a tree of depth at most 8 + 10 (longer rows: + n / 8192), each |x| at
/// most m, have errors below depth * eps * m; divided by the deviation that is an absolute error
/// of the normal value y, to which its own roundings and those of the deviation add a few eps |y|.
void expect_normalised(const std::vector<float>& x, const Norm& norm, std::int64_t n, DType dtype,
                       const std::vector<float>& got) {
  ASSERT_EQ(got.size(), x.size());
  for (std::size_t begin = 0; begin < x.size(); begin += static_cast<std::size_t>(n)) {
    const std::span row(x.data() + begin, static_cast<std::size_t>(n));
    double mean = 0, variance = 0, largest = 0;
    for (const double value : row) mean += value / static_cast<double>(n);
    for (const double value : row) {
      variance += (value - mean) * (value - mean) / static_cast<double>(n);
      largest = std::max(largest, std::abs(value));
    }
    const double scale = 1 / std::sqrt(variance + norm.params.epsilon);
    std::vector<double> want;
    for (std::size_t i = 0; i < row.size(); ++i) {
      want.push_back((row[i] - mean) * scale * norm.weight[i] + norm.bias[i]);
    }
    const double depth = 24 + static_cast<double>(n) / 4096;
    const double limit = depth * kEpsilon * (2 * largest * scale + 1) + smallest(dtype);
    EXPECT_TRUE(
        all_near(std::span(got).subspan(begin, row.size()), want, limit, rounding(dtype) * 1.01))
        << "n " << n;
  }
}

void check_layer_norm(const TestStream& stream, DType dtype, std::int64_t n, Layout layout) {
  const auto values = random_values(kRows * n, 5, DType::f32, 3);
  const Norm norm(n, layout.offset);
  const DeviceMatrix x(DType::f32, kRows, n, values, layout), out(dtype, kRows, n, layout);
  layer_norm(stream, x.view(), norm.params, out.view());
  stream.finish();
  expect_normalised(values, norm, n, dtype, out.values());
}

TEST_P(LayerNorm, RowsOfEveryLengthAndType) {
  for (const DType dtype : kTypes) {
    for (const std::int64_t n : {1, 3, 4, 63, 64, 128, 130, 768}) {
      check_layer_norm(stream, dtype, n, {});
    }
  }
}

TEST_P(LayerNorm, StridedAndUnalignedRows) {
  for (const DType dtype : kTypes) {
    check_layer_norm(stream, dtype, 48, {.gap = 8, .offset = 8});
    check_layer_norm(stream, dtype, 200, {.gap = 3, .offset = 0});
    check_layer_norm(stream, dtype, 65, {.gap = 7, .offset = 1});
  }
}

TEST_P(LayerNorm, RowsTooLongForTheRegisters) {
  check_layer_norm(stream, DType::f32, 8195, {});
  check_layer_norm(stream, DType::bf16, 9000, {});
}

TEST_P(LayerNorm, InPlace) {
  for (const std::int64_t n : {40, 8200}) {
    const auto values = random_values(n, 6);
    const Norm norm(n, 0);
    const DeviceMatrix x(DType::f32, 1, n, values);
    layer_norm(stream, x.view(), norm.params, x.view());
    stream.finish();
    expect_normalised(values, norm, n, DType::f32, x.values());
  }
}

TEST_P(LayerNorm, NoRows) {
  const DeviceMatrix none(DType::f32, 0, 8);
  layer_norm(stream, none.view(), Norm(8, 0).params, none.view());
}

TEST_P(LayerNorm, NaNStaysInItsRow) {
  auto values = random_values(2 * 96, 7);
  values[100] = std::nanf("");
  const Norm norm(96, 0);
  const DeviceMatrix x(DType::f32, 2, 96, values), out(DType::f32, 2, 96);
  layer_norm(stream, x.view(), norm.params, out.view());
  stream.finish();
  const auto got = out.values();
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_EQ(std::isnan(got[i]), i >= 96);
}

struct Update {
  DType addends = DType::f32, normed = DType::f32;
  std::int64_t n = 0;
  int n_addends = 1;
  bool bias = true, norm = true;
  Layout layout = {};
};

/// The residual has the bits of a plain loop in the order that is promised.
void check_update(const TestStream& stream, const Update& c) {
  const auto count = static_cast<std::size_t>(kRows * c.n);
  auto residual = random_values(kRows * c.n, 8);
  const DeviceMatrix x(DType::f32, kRows, c.n, residual, c.layout);
  const DeviceMatrix normed(c.normed, kRows, c.n, c.layout);
  std::vector<float> sum(count);
  std::vector<DeviceMatrix> addends;
  std::vector<MatrixView> views;
  for (int a = 0; a < c.n_addends; ++a) {
    const auto values =
        random_values(kRows * c.n, static_cast<std::uint32_t>(30 + a), c.addends, 0.5F);
    for (std::size_t i = 0; i < count; ++i) sum[i] = a == 0 ? values[i] : sum[i] + values[i];
    addends.emplace_back(c.addends, kRows, c.n, values, c.layout);
    views.push_back(addends.back().view());
  }
  const Norm norm(c.n, c.layout.offset);
  const auto bias = random_values(c.n + c.layout.offset, 23);
  const DeviceArray<float> device_bias(bias);
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t column = i % static_cast<std::size_t>(c.n);
    if (c.bias) sum[i] += bias[column + static_cast<std::size_t>(c.layout.offset)];
    residual[i] += sum[i];
  }
  update_residual(stream, views,
                  {.residual = x.view(),
                   .bias = c.bias ? device_bias.data() + c.layout.offset : nullptr,
                   .norm = c.norm ? &norm.params : nullptr,
                   .normed = c.norm ? normed.view() : MatrixView{}});
  stream.finish();
  EXPECT_EQ(x.values(), residual) << c.n << " " << c.n_addends;
  if (c.norm) expect_normalised(residual, norm, c.n, c.normed, normed.values());
}

TEST_P(UpdateResidual, EveryTypeOfAddendsAndResult) {
  for (const DType addends : kTypes) {
    for (const DType normed : kTypes) {
      for (const std::int64_t n : {1, 7, 96, 257}) {
        check_update(stream, {.addends = addends, .normed = normed, .n = n});
      }
    }
  }
}

TEST_P(UpdateResidual, AnyNumberOfAddendsInTheirOrder) {
  for (const DType addends : kTypes) {
    for (const int n_addends : {2, 3, 8, kMaxAddends}) {
      check_update(stream, {.addends = addends, .n = 65, .n_addends = n_addends});
    }
  }
}

TEST_P(UpdateResidual, StridedAndUnalignedRows) {
  for (const DType addends : kTypes) {
    for (const Layout layout : {Layout{8, 8}, Layout{.gap = 3, .offset = 1}}) {
      check_update(
          stream,
          {.addends = addends, .normed = DType::f16, .n = 136, .n_addends = 2, .layout = layout});
    }
  }
}

TEST_P(UpdateResidual, WithoutBiasOrNorm) {
  check_update(stream, {.n = 96, .bias = false});
  check_update(stream, {.n = 96, .n_addends = 3, .norm = false});
  check_update(stream, {.addends = DType::bf16, .n = 31, .bias = false, .norm = false});
}

TEST_P(UpdateResidual, RowsTooLongForTheRegisters) {
  check_update(stream, {.n = 8193, .n_addends = 2});
  check_update(stream, {.addends = DType::f16, .normed = DType::f16, .n = 8201});
}

TEST_P(UpdateResidual, RefusesWhatItCannotAdd) {
  const DeviceMatrix x(DType::f32, 2, 4), half(DType::f16, 2, 4), other(DType::f32, 2, 5);
  const ResidualRows update{.residual = x.view()};
  const std::vector<MatrixView> none, shapes{other.view()}, types{x.view(), half.view()};
  EXPECT_THROW(update_residual(stream, none, update), std::exception);
  EXPECT_THROW(update_residual(stream, shapes, update), std::exception);
  EXPECT_THROW(update_residual(stream, types, update), std::exception);
  EXPECT_THROW(update_residual(stream, std::vector(65, x.view()), update), std::exception);
  EXPECT_THROW(update_residual(stream, {&types[1], 1}, {.residual = half.view()}), std::exception);
}

}  // namespace
}  // namespace shardlm::cuda
