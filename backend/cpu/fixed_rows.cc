#include "backend/cpu/fixed_rows.h"

#include "backend/cpu/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/fixed_rows.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h, which includes this file again:
#include <hwy/highway.h>

#include <algorithm>
#include <cstddef>

HWY_BEFORE_NAMESPACE();
namespace shardlm::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<double>;
using Halves = hn::Rebind<float, D>;
using Integers = hn::RebindToSigned<D>;

/// The columns of one row in whole vectors; the largest magnitude's bits join `most`. Returns how
/// many columns that were.
template <bool kFirst>
HWY_INLINE std::int64_t AddVectors(const float* HWY_RESTRICT from, std::int64_t columns,
                                   std::int64_t* HWY_RESTRICT to,
                                   hn::Vec<hn::RebindToSigned<Halves>>& most) {
  constexpr auto kStep = static_cast<std::int64_t>(hn::MaxLanes(D()));
  const D d;
  const Integers di;
  const hn::RebindToSigned<Halves> bits;
  const auto one = hn::Set(d, kFixedOne), rounder = hn::Set(d, kFixedRounder);
  const auto zero = hn::BitCast(di, rounder);
  std::int64_t i = 0;
  for (; i + kStep <= columns; i += kStep) {
    const auto value = hn::LoadU(Halves(), from + i);
    most = hn::Max(most, hn::BitCast(bits, hn::Abs(value)));
    const auto rounded = hn::MulAdd(hn::PromoteTo(d, value), one, rounder);
    auto fixed = hn::Sub(hn::BitCast(di, rounded), zero);
    if constexpr (!kFirst) fixed = hn::Add(fixed, hn::LoadU(di, to + i));
    hn::StoreU(fixed, di, to + i);
  }
  return i;
}

/// False if a value does not fit.
template <bool kFirst>
HWY_INLINE bool AddRows(const float* from, std::int64_t stride, std::int64_t rows, std::int64_t* to,
                        const FixedSums& sums) {
  const hn::RebindToSigned<Halves> bits;
  // Magnitudes are compared as bit patterns: those of infinities and NaNs are the largest.
  auto most = hn::Zero(bits);
  bool fit = true;
  for (std::int64_t r = 0; r < rows; ++r, from += stride, to += sums.stride) {
    for (std::int64_t i = AddVectors<kFirst>(from, sums.columns, to, most); i < sums.columns; ++i) {
      fit = fit && fits_fixed(from[i]);
      to[i] = to_fixed(from[i]) + (kFirst ? 0 : to[i]);
    }
  }
  const auto limit = hn::BitCast(bits, hn::Set(Halves(), kFixedLimit));
  return fit && hn::AllTrue(bits, hn::Lt(most, limit));
}

bool AddFixedRows(const float* from, std::int64_t stride, std::int64_t rows, bool first,
                  std::int64_t* to, const FixedSums& sums) {
  return first ? AddRows<true>(from, stride, rows, to, sums)
               : AddRows<false>(from, stride, rows, to, sums);
}

}  // namespace shardlm::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace shardlm {

HWY_EXPORT(AddFixedRows);

void add_fixed_rows(const float* from, std::int64_t stride, std::int64_t row, std::int64_t rows,
                    bool first, FixedSums& sums) {
  const bool fit = HWY_DYNAMIC_DISPATCH(AddFixedRows)(from, stride, rows, first,
                                                      sums.out + row * sums.stride, sums);
  if (fit || sums.misfit) return;
  for (std::int64_t r = 0; r < rows; ++r) {
    const float* const at = from + r * stride;
    const float* const bad =
        std::find_if_not(at, at + sums.columns, [](float x) { return fits_fixed(x); });
    if (bad == at + sums.columns) continue;
    sums.misfit = FixedMisfit{.row = row + r, .output = bad - at, .sum = *bad};
    return;
  }
}

}  // namespace shardlm
#endif
