// Which instruction set the kernels use.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace shardlm {

/// Highway's name of it: "AVX3" (AVX-512), "AVX2", "SSE4", "NEON", "EMU128" or "SCALAR".
std::string cpu_simd_target();
/// All that were compiled and run on this machine, best first.
std::vector<std::string> cpu_simd_targets();

/// For tests and benchmarks: while it lives, all kernels of the process use the named one.
class ForcedSimdTarget {
 public:
  explicit ForcedSimdTarget(std::string_view name);
  ~ForcedSimdTarget();
  ForcedSimdTarget(const ForcedSimdTarget&) = delete;
  ForcedSimdTarget& operator=(const ForcedSimdTarget&) = delete;
};

}  // namespace shardlm
