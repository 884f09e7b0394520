#include "backend/cpu/cpu_features.h"

#include <atomic>

#include "backend/cpu/amx_support.h"
#include "backend/cpu/simd.h"

namespace shardlm {
namespace {

#if defined(__x86_64__) && defined(__linux__)
CpuFeatures detect() {
  __builtin_cpu_init();
  CpuFeatures found;
  found.avx512_vnni = __builtin_cpu_supports("avx512vnni") != 0;
  found.avx512_bf16 = __builtin_cpu_supports("avx512bf16") != 0;
  found.amx_bf16 = amx_support().bf16;
  found.amx_int8 = amx_support().int8;
  return found;
}
#else
CpuFeatures detect() { return {}; }
#endif

unsigned bits_of(const CpuFeatures& features) {
  return (features.avx512_vnni ? 1U : 0U) | (features.avx512_bf16 ? 2U : 0U) |
         (features.amx_bf16 ? 4U : 0U) | (features.amx_int8 ? 8U : 0U);
}

// What a ForcedCpuFeatures leaves: read at every call of a kernel, hence bits in an atomic.
std::atomic<unsigned>& usable() {
  static std::atomic<unsigned> bits{bits_of(detected_cpu_features())};
  return bits;
}

}  // namespace

std::string describe_cpu_instructions() {
  const CpuFeatures features = cpu_features();
  const std::string target = cpu_simd_target();
  if (target != "AVX3") return target;
  const bool bf16 = features.amx_bf16, int8 = features.amx_int8;
  return target + (features.avx512_vnni ? "+VNNI" : "") +
         (bf16 && int8 ? "+AMX"
          : bf16       ? "+AMX_BF16"
          : int8       ? "+AMX_INT8"
                       : "");
}

CpuFeatures detected_cpu_features() {
  static const CpuFeatures detected = detect();
  return detected;
}

CpuFeatures cpu_features() {
  const unsigned bits = usable().load(std::memory_order_relaxed);
  return {.avx512_vnni = (bits & 1U) != 0,
          .avx512_bf16 = (bits & 2U) != 0,
          .amx_bf16 = (bits & 4U) != 0,
          .amx_int8 = (bits & 8U) != 0};
}

ForcedCpuFeatures::ForcedCpuFeatures(CpuFeatures wanted, CpuFeatures emulated) {
  usable() = bits_of(wanted) & (bits_of(detected_cpu_features()) | bits_of(emulated));
}

ForcedCpuFeatures::~ForcedCpuFeatures() { usable() = bits_of(detected_cpu_features()); }

}  // namespace shardlm
