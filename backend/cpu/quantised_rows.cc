#include "backend/cpu/quantised_rows.h"
#include "backend/cpu/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/quantised_rows.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h, which includes this file again:
#include <hwy/highway.h>

#include <algorithm>
#include <limits>

#include "backend/cpu/simd_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace shardlm::HWY_NAMESPACE {

using I = hn::RebindToSigned<F>;
using Bytes = hn::Rebind<std::int8_t, F>;

/// One block: 32 floats at x to 32 bytes; the scale and the sum of the bytes.
HWY_INLINE void QuantiseBlock(const float* HWY_RESTRICT x, std::int8_t* HWY_RESTRICT values,
                              float& scale, std::int32_t& sum) {
  constexpr std::size_t kBlock = QuantisedRows::kBlock;
  const F d;
  const I di;
  // Magnitudes are compared as bit patterns: those of infinities and NaNs are the largest.
  auto most_bits = hn::Zero(di);
  for (std::size_t k = 0; k < kBlock; k += kLanes) {
    most_bits = hn::Max(most_bits, hn::BitCast(di, hn::Abs(hn::LoadU(d, x + k))));
  }
  const float most = hn::GetLane(hn::BitCast(d, hn::MaxOfLanes(di, most_bits)));
  const bool finite = most <= std::numeric_limits<float>::max();
  if (!finite || most < 0x1p-100F) {
    scale = finite ? 0.0F : std::numeric_limits<float>::quiet_NaN();
    sum = 0;
    std::fill_n(values, kBlock, std::int8_t{0});
    return;
  }
  scale = most * (1.0F / 127.0F);
  const VecF inverse = hn::Set(d, 127.0F / most);
  auto sums = hn::Zero(di);
  for (std::size_t k = 0; k < kBlock; k += kLanes) {
    const auto rounded = hn::NearestInt(hn::Mul(hn::LoadU(d, x + k), inverse));
    sums = hn::Add(sums, rounded);
    hn::StoreU(hn::DemoteTo(Bytes(), rounded), Bytes(), values + k);
  }
  sum = hn::GetLane(hn::SumOfLanes(di, sums));
}

void QuantiseRow(const float* x, std::int64_t length, std::int8_t* values, float* scales,
                 std::int32_t* sums) {
  constexpr std::int64_t kBlock = QuantisedRows::kBlock;
  const std::int64_t whole = length / kBlock;
  for (std::int64_t b = 0; b < whole; ++b) {
    QuantiseBlock(x + b * kBlock, values + b * kBlock, scales[b], sums[b]);
  }
  if (whole * kBlock == length) return;
  alignas(64) float last[kBlock] = {};
  std::copy_n(x + whole * kBlock, length - whole * kBlock, last);
  QuantiseBlock(last, values + whole * kBlock, scales[whole], sums[whole]);
}

}  // namespace shardlm::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace shardlm {

HWY_EXPORT(QuantiseRow);

void QuantisedRows::resize(std::int64_t rows, std::int64_t length) {
  rows_ = rows;
  length_ = length;
  blocks_ = (length + kBlock - 1) / kBlock;
  const auto blocks = static_cast<std::size_t>(rows * blocks_);
  if (scales_.size() >= blocks) return;
  values_.resize(blocks * kBlock);
  scales_.resize(blocks);
  sums_.resize(blocks);
}

void QuantisedRows::fill(const float* x, std::int64_t stride, std::int64_t begin,
                         std::int64_t end) {
  const auto quantise = HWY_DYNAMIC_DISPATCH(QuantiseRow);
  for (std::int64_t r = begin; r < end; ++r) {
    quantise(x + r * stride, length_, values_.data() + r * blocks_ * kBlock,
             scales_.data() + r * blocks_, sums_.data() + r * blocks_);
  }
}

}  // namespace shardlm
#endif
