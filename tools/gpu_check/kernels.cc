// gpu_check kernels
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/philox.h"
#include "comm/gpu.h"
#include "tools/gpu_check/commands.h"
#include "tools/gpu_check/kernel_checks.h"
#include "tools/gpu_check/ranks.h"

namespace shardlm::gpu_check {
namespace {

using Check = void (*)(const KernelCheck&);
constexpr std::array<std::pair<std::string_view, Check>, 4> kChecks = {{
    {"rows", check_rows},
    {"attention", check_attention},
    {"matmul", check_matmul},
    {"logits", check_logits},
}};

// Weights and activations alike; the cache may be of another type, which takes other kernels.
constexpr std::array<Precision, 4> kPrecisions = {{
    {DType::f32, DType::f32, DType::f32},
    {DType::f16, DType::f16, DType::f16},
    {DType::bf16, DType::bf16, DType::bf16},
    {DType::bf16, DType::bf16, DType::f32},
}};

Tensor put(Backend& backend, Tensor tensor, const std::vector<float>& values) {
  backend.upload(values, tensor);
  return tensor;
}

}  // namespace

std::string KernelCheck::where() const {
  const Precision precision = backend.precision();
  const std::string text = dtype_text(precision.activations);
  return precision.kv == precision.activations ? text
                                               : text + " with cache " + dtype_text(precision.kv);
}

std::vector<float> random_values(std::int64_t count, std::uint32_t seed, DType dtype, float range) {
  std::vector<float> values;
  const auto n = static_cast<std::size_t>(count);
  for (std::uint32_t block = 0; values.size() < n; ++block) {
    for (const std::uint32_t word : philox4x32_10({block, 0, 0, 0}, {seed, 1})) {
      values.push_back((static_cast<float>(word >> 8) * 0x1p-23F - 1) * range);
    }
  }
  values.resize(n);
  std::vector<std::byte> narrow(n * bits(dtype) / 8);
  from_float32(dtype, values, narrow);
  to_float32(dtype, narrow, values);
  return values;
}

Tensor put_floats(Backend& backend, std::int64_t rows, std::int64_t cols,
                  const std::vector<float>& values) {
  return put(backend, backend.allocate(rows, cols), values);
}

Tensor put_activations(Backend& backend, std::int64_t rows, std::int64_t cols,
                       const std::vector<float>& values) {
  return put(backend, backend.allocate_activation(rows, cols), values);
}

std::vector<float> get(Backend& backend, const Tensor& tensor) {
  std::vector<float> values(static_cast<std::size_t>(tensor.elements()), std::nanf(""));
  backend.download(tensor, values);
  return values;
}

double activated(Activation kind, double x) {
  constexpr double kRootOf2OverPi = 0.79788456080286535588, kRootOf2 = 1.41421356237309504880;
  switch (kind) {
    case Activation::gelu_tanh:
      return 0.5 * x * (1 + std::tanh(kRootOf2OverPi * (x + 0.044715 * x * x * x)));
    case Activation::gelu_erf:
      return 0.5 * x * (1 + std::erf(x / kRootOf2));
    case Activation::gelu_quick:
      return x / (1 + std::exp(-1.702 * x));
    case Activation::relu:
      return x > 0 ? x : 0;
    case Activation::silu:
      return x / (1 + std::exp(-x));
    case Activation::tanh:
      return std::tanh(x);
  }
  return std::nan("");
}

int run_kernels(Arguments& arguments) {
  const std::vector<std::string> only = arguments.list("only", "all");
  const std::vector<DType> dtypes = arguments.dtypes("dtypes", "f32,f16,bf16");
  const std::string path = arguments.text("figures", "");
  arguments.finish();
  const GpuSurvey survey = survey_gpus();
  if (survey.devices.empty()) throw Skip{survey.none_because};
  Findings findings;
  const auto wanted = [&](std::string_view name) {
    return only.front() == "all" || std::count(only.begin(), only.end(), name) > 0;
  };
  for (const Precision& precision : kPrecisions) {
    if (std::count(dtypes.begin(), dtypes.end(), precision.activations) == 0) continue;
    const auto backend = make_gpu_backend({.device = 0, .precision = precision});
    for (const auto& [name, check] : kChecks) {
      if (!wanted(name)) continue;
      if (precision.kv != precision.activations && check != check_attention) continue;
      check({*backend, findings});
    }
  }
  if (findings.checked() == 0) {
    fail(ExitCode::usage, {.what = "--only",
                           .expected = "some of rows, attention, matmul, logits",
                           .found = "'" + only.front() + "'"});
  }
  findings.figures().save(path);
  std::printf("%s\n", findings.summary().c_str());
  return findings.report();
}

}  // namespace shardlm::gpu_check
