#include "tests/gpu/doubles/lt_descriptors.h"

#include <memory>

using namespace shardlm::doubles;

namespace {

template <class Opaque, class T>
cublasStatus_t create(Opaque** out, const T& value) {
  if (out == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  auto opaque = std::make_unique<Opaque>();
  write(*opaque, value);
  *out = opaque.release();
  return CUBLAS_STATUS_SUCCESS;
}

template <class Opaque>
cublasStatus_t destroy(Opaque* opaque) {
  const std::unique_ptr<Opaque> owned(opaque);
  return CUBLAS_STATUS_SUCCESS;
}

// cuBLASLt's rule: the size must be exactly the attribute's.
template <class T>
cublasStatus_t assign(T& field, const void* from, std::size_t bytes) {
  if (from == nullptr || bytes != sizeof field) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(&field, from, sizeof field);
  return CUBLAS_STATUS_SUCCESS;
}

template <class T>
cublasStatus_t fetch(const T& field, void* to, std::size_t bytes, std::size_t* written) {
  if (written != nullptr) *written = sizeof field;
  if (bytes == 0) return written != nullptr ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
  if (to == nullptr || bytes != sizeof field) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(to, &field, sizeof field);
  return CUBLAS_STATUS_SUCCESS;
}

bool power_of_two(std::uint32_t n) { return n != 0 && (n & (n - 1)) == 0; }

}  // namespace

extern "C" {

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* desc, cublasComputeType_t compute,
                                        cudaDataType_t scale) {
  MatmulDesc d;
  d.compute = compute, d.scale = scale;
  return create(desc, d);
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc) { return destroy(desc); }

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc,
                                              cublasLtMatmulDescAttributes_t attribute,
                                              const void* from, std::size_t bytes) {
  auto d = read<MatmulDesc>(*desc);
  cublasStatus_t status = CUBLAS_STATUS_NOT_SUPPORTED;  // one that the double does not know
  switch (attribute) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
      status = assign(d.transpose_a, from, bytes);
      break;
    case CUBLASLT_MATMUL_DESC_TRANSB:
      status = assign(d.transpose_b, from, bytes);
      break;
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
      status = assign(d.epilogue, from, bytes);
      break;
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
      status = assign(d.bias, from, bytes);
      break;
    case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE:
      status = assign(d.bias_type, from, bytes);
      break;
    default:
      break;
  }
  if (status == CUBLAS_STATUS_SUCCESS) write(*desc, d);
  return status;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType type,
                                          std::uint64_t rows, std::uint64_t cols, std::int64_t ld) {
  return create(layout, MatrixLayout{static_cast<std::uint32_t>(type), rows, cols, ld});
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  return destroy(layout);
}

cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t attribute,
                                                const void* from, std::size_t bytes) {
  auto l = read<MatrixLayout>(*layout);
  cublasStatus_t status = CUBLAS_STATUS_NOT_SUPPORTED;
  switch (attribute) {
    case CUBLASLT_MATRIX_LAYOUT_TYPE:
      status = assign(l.type, from, bytes);
      break;
    case CUBLASLT_MATRIX_LAYOUT_ROWS:
      status = assign(l.rows, from, bytes);
      break;
    case CUBLASLT_MATRIX_LAYOUT_COLS:
      status = assign(l.cols, from, bytes);
      break;
    case CUBLASLT_MATRIX_LAYOUT_LD:
      status = assign(l.ld, from, bytes);
      break;
    default:
      break;
  }
  if (status == CUBLAS_STATUS_SUCCESS) write(*layout, l);
  return status;
}

cublasStatus_t cublasLtMatrixLayoutGetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t attribute, void* to,
                                                std::size_t bytes, std::size_t* written) {
  const auto l = read<MatrixLayout>(*layout);
  switch (attribute) {
    case CUBLASLT_MATRIX_LAYOUT_TYPE:
      return fetch(l.type, to, bytes, written);
    case CUBLASLT_MATRIX_LAYOUT_ROWS:
      return fetch(l.rows, to, bytes, written);
    case CUBLASLT_MATRIX_LAYOUT_COLS:
      return fetch(l.cols, to, bytes, written);
    case CUBLASLT_MATRIX_LAYOUT_LD:
      return fetch(l.ld, to, bytes, written);
    default:
      return CUBLAS_STATUS_NOT_SUPPORTED;
  }
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  return create(preference, Preference{});
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  return destroy(preference);
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void* from, std::size_t bytes) {
  auto p = read<Preference>(*preference);
  int buffer = 0;
  switch (attribute) {
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES: {
      const cublasStatus_t status = assign(p.workspace, from, bytes);
      if (status == CUBLAS_STATUS_SUCCESS) write(*preference, p);
      return status;
    }
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES:
      break;
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES:
      buffer = 1;
      break;
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES:
      buffer = 2;
      break;
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES:
      buffer = 3;
      break;
    default:
      return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  const cublasStatus_t status = assign(p.alignment[buffer], from, bytes);
  if (status != CUBLAS_STATUS_SUCCESS) return status;
  if (!power_of_two(p.alignment[buffer])) return CUBLAS_STATUS_INVALID_VALUE;
  p.promised[buffer] = true;
  write(*preference, p);
  return CUBLAS_STATUS_SUCCESS;
}

}  // extern "C"
