#include "backend/cpu/ordered_sum.h"

#include "backend/cpu/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/ordered_sum.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h, which includes this file again:
#include <hwy/highway.h>

#include "backend/cpu/simd_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace shardlm::HWY_NAMESPACE {

void SumInOrder(std::span<const float* const> addends, std::size_t n, float* sum) {
  constexpr std::size_t kUnrolled = 4;
  std::size_t i = 0;
  for (; i + kUnrolled * kLanes <= n; i += kUnrolled * kLanes) {
    VecF sums[kUnrolled];
    for (std::size_t v = 0; v < kUnrolled; ++v) {
      sums[v] = hn::LoadU(F(), addends[0] + i + v * kLanes);
    }
    for (const float* addend : addends.subspan(1)) {
      for (std::size_t v = 0; v < kUnrolled; ++v) {
        sums[v] = hn::Add(sums[v], hn::LoadU(F(), addend + i + v * kLanes));
      }
    }
    for (std::size_t v = 0; v < kUnrolled; ++v) hn::StoreU(sums[v], F(), sum + i + v * kLanes);
  }
  for (; i < n; ++i) {
    float one = addends[0][i];
    for (const float* addend : addends.subspan(1)) one += addend[i];
    sum[i] = one;
  }
}

}  // namespace shardlm::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace shardlm {

HWY_EXPORT(SumInOrder);

void sum_floats_in_order(std::span<const float* const> addends, std::size_t n, float* sum) {
  HWY_DYNAMIC_DISPATCH(SumInOrder)(addends, n, sum);
}

}  // namespace shardlm
#endif
