// Instructions beyond the sets of simd.h, which some processors of a set have and others lack.
#pragma once

#include <string>

namespace shardlm {

struct CpuFeatures {
  bool avx512_vnni = false;  ///< dot products of bytes (with AVX-512)
  bool avx512_bf16 = false;  ///< dot products of bfloat16 (with AVX-512)
  bool amx_bf16 = false;     ///< matrix tiles of bfloat16; the system lets us use them
  bool amx_int8 = false;     ///< matrix tiles of bytes; the system lets us use them

  bool operator==(const CpuFeatures&) const = default;
};

/// Those that the kernels use: of this machine, or as a ForcedCpuFeatures says.
CpuFeatures cpu_features();
/// Those of this machine.
CpuFeatures detected_cpu_features();

/// What the kernels use, "AVX3+VNNI+AMX": the set of simd.h, and of these what goes with it.
std::string describe_cpu_instructions();

/// For tests and benchmarks: while it lives, all kernels of the process do without the features
/// that `wanted` lacks. What the machine lacks stays off, but for `emulated`: a test sees to it
/// that those instructions are carried out. Not while another one lives.
class ForcedCpuFeatures {
 public:
  explicit ForcedCpuFeatures(CpuFeatures wanted, CpuFeatures emulated = {});
  ~ForcedCpuFeatures();
  ForcedCpuFeatures(const ForcedCpuFeatures&) = delete;
  ForcedCpuFeatures& operator=(const ForcedCpuFeatures&) = delete;
};

}  // namespace shardlm
