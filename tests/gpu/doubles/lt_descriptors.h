// cuBLASLt's descriptors: what the double keeps in their opaque words.
#pragma once

#include <cublasLt.h>

#include <cstdint>
#include <cstring>

namespace shardlm::doubles {

struct MatmulDesc {
  cublasComputeType_t compute = CUBLAS_COMPUTE_32F;
  cudaDataType scale = CUDA_R_32F;
  std::int32_t transpose_a = CUBLAS_OP_N, transpose_b = CUBLAS_OP_N;
  std::uint32_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  const void* bias = nullptr;
  std::int32_t bias_type = -1;  // D's

  bool has_bias() const { return (epilogue & CUBLASLT_EPILOGUE_BIAS) != 0; }
  bool has_gelu() const { return (epilogue & CUBLASLT_EPILOGUE_GELU) != 0; }
};

struct MatrixLayout {
  std::uint32_t type = CUDA_R_32F;
  std::uint64_t rows = 0, cols = 0;
  std::int64_t ld = 0;
};

/// What the caller promises about its buffers: A, B, C, D.
struct Preference {
  std::uint64_t workspace = 0;
  std::uint32_t alignment[4] = {256, 256, 256, 256};
  bool promised[4] = {false, false, false, false};  // by the caller, not by default
};

/// What an algorithm was chosen for.
struct Algorithm {
  std::uint32_t magic = 0;
  std::uint32_t epilogue = 0;
  std::uint32_t workspace = 0;
  std::uint16_t alignment[4] = {};
  std::uint8_t promised[4] = {};
  std::uint8_t type_ab = 0, type_d = 0, transpose_a = 0, transpose_b = 0;
};

/// The words of a descriptor as what the double keeps there. Copies: the words are only bytes.
template <class T, class Opaque>
T read(const Opaque& opaque) {
  static_assert(sizeof(T) <= sizeof(Opaque));
  T value;
  std::memcpy(static_cast<void*>(&value), &opaque, sizeof value);
  return value;
}
template <class T, class Opaque>
void write(Opaque& opaque, const T& value) {
  static_assert(sizeof(T) <= sizeof(Opaque));
  std::memcpy(static_cast<void*>(&opaque), &value, sizeof value);
}

}  // namespace shardlm::doubles
