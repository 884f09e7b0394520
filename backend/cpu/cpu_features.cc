#include "backend/cpu/cpu_features.h"

#include <atomic>

#if defined(__x86_64__) && defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace shardlm {
namespace {

#if defined(__x86_64__) && defined(__linux__)
// Linux hands out the tiles' 8 KiB of state a thread on request only, once for a process.
bool system_grants_tiles() {
  constexpr long kRequestPermission = 0x1023, kTileData = 18;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

CpuFeatures detect() {
  __builtin_cpu_init();
  CpuFeatures found;
  found.avx512_vnni = __builtin_cpu_supports("avx512vnni") != 0;
  found.avx512_bf16 = __builtin_cpu_supports("avx512bf16") != 0;
  const bool bf16 = __builtin_cpu_supports("amx-bf16") != 0;
  const bool int8 = __builtin_cpu_supports("amx-int8") != 0;
  if ((bf16 || int8) && system_grants_tiles()) {
    found.amx_bf16 = bf16;
    found.amx_int8 = int8;
  }
  return found;
}
#else
CpuFeatures detect() { return {}; }
#endif

// What a ForcedCpuFeatures leaves: read at every call of a kernel, hence bits in an atomic.
std::atomic<unsigned>& allowed() {
  static std::atomic<unsigned> bits{~0U};
  return bits;
}

}  // namespace

CpuFeatures detected_cpu_features() {
  static const CpuFeatures detected = detect();
  return detected;
}

CpuFeatures cpu_features() {
  const CpuFeatures found = detected_cpu_features();
  const unsigned bits = allowed().load(std::memory_order_relaxed);
  return {.avx512_vnni = found.avx512_vnni && (bits & 1U) != 0,
          .avx512_bf16 = found.avx512_bf16 && (bits & 2U) != 0,
          .amx_bf16 = found.amx_bf16 && (bits & 4U) != 0,
          .amx_int8 = found.amx_int8 && (bits & 8U) != 0};
}

ForcedCpuFeatures::ForcedCpuFeatures(CpuFeatures wanted) {
  allowed() = (wanted.avx512_vnni ? 1U : 0U) | (wanted.avx512_bf16 ? 2U : 0U) |
              (wanted.amx_bf16 ? 4U : 0U) | (wanted.amx_int8 ? 8U : 0U);
}

ForcedCpuFeatures::~ForcedCpuFeatures() { allowed() = ~0U; }

}  // namespace shardlm
