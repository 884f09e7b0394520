// cuBLASLt's double: column-major products, with cuBLASLt's own rules about arguments. An algorithm
// says what it was chosen for, and is refused for anything else.
#include <cublasLt.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string_view>

#include "tests/gpu/doubles/doubles.h"
#include "tests/gpu/doubles/faults.h"
#include "tests/gpu/doubles/lt_descriptors.h"
#include "tests/gpu/doubles/lt_product.h"
#include "tests/gpu/doubles/runtime.h"

struct cublasLtContext {
  int device = 0;
};

namespace shardlm::doubles {
namespace {

constexpr std::uint32_t kMagic = 0x41676c54;
// The double's algorithms want this much workspace if they may have it: a caller that passes less
// than it promised is found, and so are two streams that share one.
constexpr std::uint64_t kWorkspace = 4096;

/// A product's description, read from cuBLASLt's descriptors.
struct Request {
  MatmulDesc desc;
  MatrixLayout a, b, c, d;
};

bool no_epilogue() {
  const char* text = std::getenv("SHARDLM_FAKE_LT_NO_EPILOGUE");
  return text != nullptr && std::string_view(text) == "1";
}

LtMatrix matrix(const MatrixLayout& l) {
  return {nullptr, static_cast<cudaDataType>(l.type), l.rows, l.cols,
          static_cast<std::size_t>(l.ld)};
}

bool valid_layout(const MatrixLayout& l) {
  return l.rows > 0 && l.cols > 0 && l.ld > 0 && static_cast<std::uint64_t>(l.ld) >= l.rows;
}

bool shapes_agree(const Request& r) {
  const bool ta = r.desc.transpose_a != CUBLAS_OP_N, tb = r.desc.transpose_b != CUBLAS_OP_N;
  const std::uint64_t m = ta ? r.a.cols : r.a.rows, k = ta ? r.a.rows : r.a.cols;
  const std::uint64_t k_b = tb ? r.b.cols : r.b.rows, n = tb ? r.b.rows : r.b.cols;
  return k == k_b && r.d.rows == m && r.d.cols == n && r.c.rows == m && r.c.cols == n;
}

// The combinations of the real one's table for CUBLAS_COMPUTE_32F that the project may use.
bool supported(const Request& r) {
  const auto ab = static_cast<cudaDataType>(r.a.type), d = static_cast<cudaDataType>(r.d.type);
  if (r.desc.compute != CUBLAS_COMPUTE_32F || r.desc.scale != CUDA_R_32F) return false;
  if (element_bytes(ab) == 0 || r.b.type != r.a.type || r.c.type != r.d.type) return false;
  if (d != ab && d != CUDA_R_32F) return false;
  switch (r.desc.epilogue) {
    case CUBLASLT_EPILOGUE_DEFAULT:
      return true;
    case CUBLASLT_EPILOGUE_BIAS:
    case CUBLASLT_EPILOGUE_GELU_BIAS:
      if (r.desc.bias_type >= 0 && r.desc.bias_type != static_cast<std::int32_t>(d)) return false;
      return !no_epilogue();
    case CUBLASLT_EPILOGUE_GELU:
      return !no_epilogue();
    default:
      return false;
  }
}

cublasStatus_t check(const Request& r) {
  for (const MatrixLayout* l : {&r.a, &r.b, &r.c, &r.d})
    if (!valid_layout(*l)) return CUBLAS_STATUS_INVALID_VALUE;
  if (!shapes_agree(r)) return CUBLAS_STATUS_INVALID_VALUE;
  return supported(r) ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}

Algorithm algorithm_for(const Request& r, const Preference& p) {
  Algorithm a;
  a.magic = kMagic;
  a.epilogue = r.desc.epilogue;
  a.workspace = p.workspace >= kWorkspace ? static_cast<std::uint32_t>(kWorkspace) : 0;
  for (int i = 0; i < 4; ++i) {
    a.alignment[i] = static_cast<std::uint16_t>(p.alignment[i]);
    a.promised[i] = p.promised[i] ? 1 : 0;
  }
  a.type_ab = static_cast<std::uint8_t>(r.a.type), a.type_d = static_cast<std::uint8_t>(r.d.type);
  a.transpose_a = static_cast<std::uint8_t>(r.desc.transpose_a);
  a.transpose_b = static_cast<std::uint8_t>(r.desc.transpose_b);
  return a;
}

bool chosen_for(const Algorithm& a, const Request& r) {
  return a.magic == kMagic && a.epilogue == r.desc.epilogue && a.type_ab == r.a.type &&
         a.type_d == r.d.type && a.transpose_a == r.desc.transpose_a &&
         a.transpose_b == r.desc.transpose_b;
}

// Whether a buffer is aligned as the algorithm was told: its address and, where the caller said so
// himself, its columns.
bool aligned(const Algorithm& a, int buffer, const void* data, const MatrixLayout& l) {
  const std::uint64_t columns =
      static_cast<std::uint64_t>(l.ld) * element_bytes(static_cast<cudaDataType>(l.type));
  if (reinterpret_cast<std::uintptr_t>(data) % a.alignment[buffer] != 0) return false;
  return a.promised[buffer] == 0 || l.cols == 1 || columns % a.alignment[buffer] == 0;
}

bool on_device(const void* data, const MatrixLayout& l) {
  const std::size_t elements = (l.cols - 1) * static_cast<std::size_t>(l.ld) + l.rows;
  return memory().on_device(data, elements * element_bytes(static_cast<cudaDataType>(l.type)));
}

bool usable_workspace(const Algorithm& a, const void* workspace, std::size_t bytes) {
  if (a.workspace == 0) return true;
  return bytes >= a.workspace && reinterpret_cast<std::uintptr_t>(workspace) % 16 == 0 &&
         memory().on_device(workspace, a.workspace);
}

cublasStatus_t from(cudaError_t error) {
  return error == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}

Request request(const cublasLtMatmulDescOpaque_t& desc, cublasLtMatrixLayout_t a,
                cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d) {
  return {read<MatmulDesc>(desc), read<MatrixLayout>(*a), read<MatrixLayout>(*b),
          read<MatrixLayout>(*c), read<MatrixLayout>(*d)};
}

struct Buffers {
  const void *a, *b, *c;
  void* d;
};

LtProduct product_of(const Request& r, const Buffers& at, float alpha, float beta) {
  LtProduct p;
  p.a = matrix(r.a), p.b = matrix(r.b), p.c = matrix(r.c), p.out = matrix(r.d);
  p.a.data = at.a, p.b.data = at.b, p.c.data = at.c;
  p.result = at.d;
  p.transpose_a = r.desc.transpose_a != CUBLAS_OP_N;
  p.transpose_b = r.desc.transpose_b != CUBLAS_OP_N;
  p.gelu = r.desc.has_gelu();
  p.bias = r.desc.has_bias() ? r.desc.bias : nullptr;
  p.alpha = alpha, p.beta = beta;
  return p;
}

cublasStatus_t check_buffers(const Request& r, const Buffers& at, float beta, const Algorithm& a) {
  if (!on_device(at.a, r.a) || !on_device(at.b, r.b) || !on_device(at.d, r.d) ||
      (beta != 0 && !on_device(at.c, r.c)))
    return CUBLAS_STATUS_INVALID_VALUE;
  const bool fits = aligned(a, 0, at.a, r.a) && aligned(a, 1, at.b, r.b) &&
                    (beta == 0 || aligned(a, 2, at.c, r.c)) && aligned(a, 3, at.d, r.d);
  if (!fits) return CUBLAS_STATUS_INVALID_VALUE;
  const MatrixLayout bias{r.d.type, r.d.rows, 1, static_cast<std::int64_t>(r.d.rows)};
  if (r.desc.has_bias() && !on_device(r.desc.bias, bias)) return CUBLAS_STATUS_INVALID_VALUE;
  return CUBLAS_STATUS_SUCCESS;
}

}  // namespace
}  // namespace shardlm::doubles

using namespace shardlm::doubles;

extern "C" {

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  if (const int error = injected_fault("cublasLtCreate")) return static_cast<cublasStatus_t>(error);
  if (device_error() != cudaSuccess) return CUBLAS_STATUS_NOT_INITIALIZED;
  *handle = std::make_unique<cublasLtContext>(cublasLtContext{current_device()}).release();
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  const std::unique_ptr<cublasLtContext> owned(handle);
  return CUBLAS_STATUS_SUCCESS;
}

std::size_t cublasLtGetVersion() { return CUBLAS_VERSION; }

const char* cublasLtGetStatusName(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS:
      return "CUBLAS_STATUS_SUCCESS";
    case CUBLAS_STATUS_NOT_INITIALIZED:
      return "CUBLAS_STATUS_NOT_INITIALIZED";
    case CUBLAS_STATUS_ALLOC_FAILED:
      return "CUBLAS_STATUS_ALLOC_FAILED";
    case CUBLAS_STATUS_INVALID_VALUE:
      return "CUBLAS_STATUS_INVALID_VALUE";
    case CUBLAS_STATUS_EXECUTION_FAILED:
      return "CUBLAS_STATUS_EXECUTION_FAILED";
    case CUBLAS_STATUS_NOT_SUPPORTED:
      return "CUBLAS_STATUS_NOT_SUPPORTED";
    default:
      return "another cuBLAS status";
  }
}

const char* cublasLtGetStatusString(cublasStatus_t status) { return cublasLtGetStatusName(status); }

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int wanted,
                                              cublasLtMatmulHeuristicResult_t* results,
                                              int* found) {
  if (const int error = injected_fault("cublasLtMatmulAlgoGetHeuristic"))
    return static_cast<cublasStatus_t>(error);
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (wanted < 1 || results == nullptr || found == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  *found = 0;
  const Request r = request(*desc, a, b, c, d);
  if (const cublasStatus_t status = check(r); status != CUBLAS_STATUS_SUCCESS) return status;
  const Algorithm algorithm = algorithm_for(r, read<Preference>(*preference));
  *results = cublasLtMatmulHeuristicResult_t{};
  write(results->algo, algorithm);
  results->workspaceSize = algorithm.workspace;
  results->state = CUBLAS_STATUS_SUCCESS;
  results->wavesCount = 1;
  *found = 1;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, const void* alpha,
                              const void* a, cublasLtMatrixLayout_t layout_a, const void* b,
                              cublasLtMatrixLayout_t layout_b, const void* beta, const void* c,
                              cublasLtMatrixLayout_t layout_c, void* d,
                              cublasLtMatrixLayout_t layout_d, const cublasLtMatmulAlgo_t* algo,
                              void* workspace, std::size_t bytes, cudaStream_t stream) {
  if (const int error = injected_fault("cublasLtMatmul")) return static_cast<cublasStatus_t>(error);
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (handle->device != current_device()) return CUBLAS_STATUS_ARCH_MISMATCH;
  const Request r = request(*desc, layout_a, layout_b, layout_c, layout_d);
  if (const cublasStatus_t status = check(r); status != CUBLAS_STATUS_SUCCESS) return status;
  Preference any;  // without an algorithm cuBLASLt chooses by the buffers themselves
  for (std::uint32_t& alignment : any.alignment) alignment = 1;
  const Algorithm chosen = algo != nullptr ? read<Algorithm>(*algo) : algorithm_for(r, any);
  if (!chosen_for(chosen, r) || !usable_workspace(chosen, workspace, bytes))
    return CUBLAS_STATUS_INVALID_VALUE;
  const Buffers at{a, b, c, d};
  const float alpha_value = *static_cast<const float*>(alpha);  // host pointers
  const float beta_value = *static_cast<const float*>(beta);
  if (const cublasStatus_t status = check_buffers(r, at, beta_value, chosen);
      status != CUBLAS_STATUS_SUCCESS)
    return status;
  return from(
      enqueue(stream, "matmul",
              [p = product_of(r, at, alpha_value, beta_value), workspace, used = chosen.workspace] {
                if (used > 0) std::memset(workspace, 0xff, used);
                compute(p);
              }));
}

}  // extern "C"
