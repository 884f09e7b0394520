#include "backend/cuda/matmul.h"

#include <cublasLt.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <compare>
#include <map>
#include <utility>

#include "backend/cuda/check.h"
#include "backend/cuda/kernels/activate.h"
#include "base/error.h"
#include "base/log.h"

namespace shardlm::cuda {
namespace {

// What NVIDIA recommends for Hopper (cuBLAS documentation, cublasSetWorkspace).
constexpr std::size_t kWorkspaceBytes = std::size_t{32} << 20;

void check_lt(cublasStatus_t status, const char* doing) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  fail(ExitCode::resources, {.what = fmt::format("cuBLASLt failed while {}", doing),
                             .found = cublasLtGetStatusString(status)});
}

cudaDataType_t cuda_type(DType dtype) {
  switch (dtype) {
    case DType::f16:
      return CUDA_R_16F;
    case DType::bf16:
      return CUDA_R_16BF;
    default:
      return CUDA_R_32F;
  }
}

// The largest power of two, up to 256, that divides an address or a row's length in bytes.
std::uint32_t alignment_of(const MatrixView& m) {
  const std::uint64_t bytes = static_cast<std::uint64_t>(m.stride) * bits(m.dtype) / 8;
  const std::uint64_t all = reinterpret_cast<std::uintptr_t>(m.data) | bytes | 256;
  return static_cast<std::uint32_t>(all & (~all + 1));
}

template <class T, auto Destroy>
struct Handle {
  Handle() = default;
  Handle(Handle&& other) noexcept : value(std::exchange(other.value, nullptr)) {}
  Handle& operator=(Handle&& other) noexcept {
    std::swap(value, other.value);
    return *this;
  }
  ~Handle() {
    if (value != nullptr) Destroy(value);
  }
  T value = nullptr;
};
// What the multiplication itself has left to do.
void finish(cudaStream_t stream, const MatrixView* bias, std::optional<Activation> activation,
            const MatrixView& out) {
  if (bias != nullptr) return add_bias(stream, *bias, activation, out);
  if (activation) activate(stream, *activation, out);
}

using Layout = Handle<cublasLtMatrixLayout_t, cublasLtMatrixLayoutDestroy>;
using Desc = Handle<cublasLtMatmulDesc_t, cublasLtMatmulDescDestroy>;
using Preference = Handle<cublasLtMatmulPreference_t, cublasLtMatmulPreferenceDestroy>;

// A row-major [rows, cols] is to cuBLAS the column-major [cols, rows] with the same stride.
Layout layout_of(const MatrixView& m) {
  Layout layout;
  check_lt(cublasLtMatrixLayoutCreate(&layout.value, cuda_type(m.dtype),
                                      static_cast<std::uint64_t>(m.cols),
                                      static_cast<std::uint64_t>(m.rows), m.stride),
           "describing a matrix");
  return layout;
}

template <class T>
void set(cublasLtMatmulDesc_t desc, cublasLtMatmulDescAttributes_t what, const T& value) {
  check_lt(cublasLtMatmulDescSetAttribute(desc, what, &value, sizeof value),
           "describing a multiplication");
}

template <class T>
void prefer(cublasLtMatmulPreference_t preference, cublasLtMatmulPreferenceAttributes_t what,
            const T& value) {
  check_lt(cublasLtMatmulPreferenceSetAttribute(preference, what, &value, sizeof value),
           "asking for an algorithm");
}

// All that an algorithm was chosen for: shapes, strides, types, alignments, epilogue.
struct Key {
  std::int64_t w_rows, w_cols, w_stride, x_rows, x_stride, out_stride;
  bool rows_are_outputs;
  DType in_dtype, out_dtype;
  std::array<std::uint32_t, 3> alignment;  // of w, x and out
  bool bias, gelu;
  auto operator<=>(const Key&) const = default;
};

}  // namespace

/// How one shape is multiplied: out^T [out, T] = op(w) [out, in] * x^T [in, T].
struct Matmul::Plan {
  Desc desc;
  Layout w, x, out;
  cublasLtMatmulAlgo_t algo{};
  bool found = false;
};

struct Matmul::Plans {
  Handle<cublasLtHandle_t, cublasLtDestroy> lt;
  DeviceBlock workspace{kWorkspaceBytes, "cuBLAS's workspace"};
  std::map<Key, Plan> by_shape;
  bool told = false;
};

Matmul::Matmul(const Stream& stream) : stream_(stream), plans_(std::make_unique<Plans>()) {
  check_lt(cublasLtCreate(&plans_->lt.value), "starting");
}

Matmul::~Matmul() = default;

std::string Matmul::library_version() {
  const std::size_t v = cublasLtGetVersion();  // major * 10000 + minor * 100 + patch
  return fmt::format("{}.{}", v / 10000, v / 100 % 100);
}

const Matmul::Plan& Matmul::plan_for(const MatrixView& x, const CudaMatrix& w, bool bias, bool gelu,
                                     const MatrixView& out) {
  const MatrixView& rows = w.rows();
  const Key key{.w_rows = rows.rows,
                .w_cols = rows.cols,
                .w_stride = rows.stride,
                .x_rows = x.rows,
                .x_stride = x.stride,
                .out_stride = out.stride,
                .rows_are_outputs = w.rows_are_outputs(),
                .in_dtype = x.dtype,
                .out_dtype = out.dtype,
                .alignment = {alignment_of(rows), alignment_of(x), alignment_of(out)},
                .bias = bias,
                .gelu = gelu};
  const auto known = plans_->by_shape.find(key);
  if (known != plans_->by_shape.end()) return known->second;
  return plans_->by_shape.emplace(key, make_plan(x, w, bias, gelu, out)).first->second;
}

Matmul::Plan Matmul::make_plan(const MatrixView& x, const CudaMatrix& w, bool bias, bool gelu,
                               const MatrixView& out) const {
  Plan plan;
  check_lt(cublasLtMatmulDescCreate(&plan.desc.value, CUBLAS_COMPUTE_32F, CUDA_R_32F),
           "describing a multiplication");
  const cublasOperation_t op = w.rows_are_outputs() ? CUBLAS_OP_T : CUBLAS_OP_N;
  set(plan.desc.value, CUBLASLT_MATMUL_DESC_TRANSA, op);
  const cublasLtEpilogue_t epilogue =
      gelu   ? (bias ? CUBLASLT_EPILOGUE_GELU_BIAS : CUBLASLT_EPILOGUE_GELU)
      : bias ? CUBLASLT_EPILOGUE_BIAS
             : CUBLASLT_EPILOGUE_DEFAULT;
  set(plan.desc.value, CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue);
  if (bias) set(plan.desc.value, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, cuda_type(out.dtype));
  plan.w = layout_of(w.rows());
  plan.x = layout_of(x);
  plan.out = layout_of(out);
  choose_algorithm(plan, x, w, out);
  return plan;
}

void Matmul::choose_algorithm(Plan& plan, const MatrixView& x, const CudaMatrix& w,
                              const MatrixView& out) const {
  Preference preference;
  check_lt(cublasLtMatmulPreferenceCreate(&preference.value), "asking for an algorithm");
  prefer(preference.value, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kWorkspaceBytes);
  prefer(preference.value, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment_of(w.rows()));
  prefer(preference.value, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment_of(x));
  prefer(preference.value, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment_of(out));
  prefer(preference.value, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment_of(out));
  cublasLtMatmulHeuristicResult_t result{};
  int found = 0;
  const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(
      plans_->lt.value, plan.desc.value, plan.w.value, plan.x.value, plan.out.value, plan.out.value,
      preference.value, 1, &result, &found);
  if (status != CUBLAS_STATUS_NOT_SUPPORTED) check_lt(status, "choosing an algorithm");
  plan.found = found > 0 && status == CUBLAS_STATUS_SUCCESS;
  plan.algo = result.algo;
}

void Matmul::multiply(const Plan& plan, const MatrixView& x, const CudaMatrix& w,
                      const MatrixView* bias, const MatrixView& out) {
  if (bias != nullptr) set(plan.desc.value, CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias->data);
  const float one = 1, zero = 0;
  check_lt(
      cublasLtMatmul(plans_->lt.value, plan.desc.value, &one, w.rows().data, plan.w.value, x.data,
                     plan.x.value, &zero, out.data, plan.out.value, out.data, plan.out.value,
                     &plan.algo, plans_->workspace.data(), kWorkspaceBytes, stream_.get()),
      "multiplying");
}

void Matmul::run(const MatrixView& x, const CudaMatrix& w, const MatrixView* bias,
                 std::optional<Activation> activation, const MatrixView& out) {
  check(x.cols == w.in() && out.cols == w.out() && out.rows == x.rows, "matmul: the shapes agree");
  check(x.dtype == w.rows().dtype, "matmul: x and w have one element type");
  check(bias == nullptr || (bias->cols == out.cols && bias->dtype == out.dtype),
        "matmul: one bias a column, in the type of the result");
  if (out.rows == 0 || out.cols == 0) return;
  if (w.in() == 0) {  // a rank without heads: an empty sum
    const std::size_t element = bits(out.dtype) / 8;
    check_cuda(cudaMemset2DAsync(out.data, static_cast<std::size_t>(out.stride) * element, 0,
                                 static_cast<std::size_t>(out.cols) * element,
                                 static_cast<std::size_t>(out.rows), stream_.get()),
               "clearing a tensor");
    return finish(stream_.get(), bias, activation, out);
  }
  const bool gelu = activation == Activation::gelu_tanh;  // the one that cuBLASLt has
  const Plan& fused = plan_for(x, w, bias != nullptr, gelu, out);
  if (fused.found) {
    multiply(fused, x, w, bias, out);
    if (!gelu) finish(stream_.get(), nullptr, activation, out);
    return;
  }
  const Plan& plain = plan_for(x, w, false, false, out);
  if (!plain.found) {
    fail(ExitCode::resources,
         {.what = fmt::format("cuBLASLt has no algorithm for [{}, {}] x [{}, {}] in {}", x.rows,
                              x.cols, w.in(), w.out(), name(x.dtype)),
          .remedy = "try another --dtype"});
  }
  if (!std::exchange(plans_->told, true)) {
    log::verbose("cuBLASLt cannot fuse bias and activation here: they are kernels of their own");
  }
  multiply(plain, x, w, nullptr, out);
  finish(stream_.get(), bias, activation, out);
}

}  // namespace shardlm::cuda
