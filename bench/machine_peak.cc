#include "bench/machine_peak.h"

#include "backend/cpu/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "bench/machine_peak.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h, which includes this file again:
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace shardlm::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

constexpr int kChains = 12;

std::int64_t MultiplyAddLoop(std::int64_t rounds, float* sink) {
  const hn::ScalableTag<float> d;
  const auto factor = hn::Set(d, 0.999F), term = hn::Set(d, 0.001F);
  hn::Vec<decltype(d)> x[kChains];
  for (int c = 0; c < kChains; ++c) x[c] = hn::Set(d, static_cast<float>(c));
  for (std::int64_t i = 0; i < rounds; ++i) {
    for (int c = 0; c < kChains; ++c) x[c] = hn::MulAdd(x[c], factor, term);
  }
  for (int c = 1; c < kChains; ++c) x[0] = hn::Add(x[0], x[c]);
  *sink = hn::GetLane(hn::SumOfLanes(d, x[0]));
  return rounds * kChains * 2 * static_cast<std::int64_t>(hn::Lanes(d));
}

}  // namespace shardlm::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace shardlm {

HWY_EXPORT(MultiplyAddLoop);

std::int64_t multiply_add_loop(std::int64_t rounds, float* sink) {
  return HWY_DYNAMIC_DISPATCH(MultiplyAddLoop)(rounds, sink);
}

}  // namespace shardlm
#endif
