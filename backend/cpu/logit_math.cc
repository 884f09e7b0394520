#include "backend/cpu/logit_math.h"

#include "backend/cpu/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/logit_math.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h, which includes this file again:
#include <hwy/contrib/math/math-inl.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"

HWY_BEFORE_NAMESPACE();
namespace shardlm::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::CappedTag<float, kLogitGroup>;
using Doubles = hn::CappedTag<double, 8>;
constexpr std::size_t kFloats = hn::MaxLanes(Floats());
constexpr std::size_t kDoubles = hn::MaxLanes(Doubles());
constexpr std::size_t kChains = 8 / kDoubles;  // vectors for eight chains of additions

// ---- loading ----------------------------------------------------------------------------------

LogitMax LoadLogits(const float* row, const std::uint8_t* allowed, std::size_t n, float* to) {
  const Floats d;
  const hn::Rebind<std::int32_t, Floats> d_int;
  const hn::Rebind<std::uint8_t, Floats> d_byte;
  const auto absent = hn::Set(d, kAbsentLogit);
  const auto largest = hn::Set(d, std::numeric_limits<float>::max());
  auto max = absent;
  auto finite = hn::Eq(absent, absent);
  const auto load = [&](const float* x, const std::uint8_t* flags, float* out) HWY_ATTR {
    const auto flag = hn::PromoteTo(d_int, hn::LoadU(d_byte, flags));
    const auto is_allowed = hn::RebindMask(d, hn::Ne(flag, hn::Zero(d_int)));
    const auto v = hn::LoadU(d, x);
    finite = hn::And(finite, hn::Le(hn::Abs(hn::IfThenElseZero(is_allowed, v)), largest));
    const auto kept = hn::IfThenElse(is_allowed, v, absent);
    max = hn::Max(max, kept);
    hn::StoreU(kept, d, out);
  };
  const std::size_t whole = n / kLogitGroup * kLogitGroup;
  for (std::size_t i = 0; i < whole; i += kFloats) load(row + i, allowed + i, to + i);
  // Nothing is read behind the row; its last group and one behind it are made here.
  std::array<float, kLogitGroup> last{};
  std::array<std::uint8_t, kLogitGroup> flags{};
  std::copy_n(row + whole, n - whole, last.begin());
  std::copy_n(allowed + whole, n - whole, flags.begin());
  for (std::size_t i = 0; i < kLogitGroup; i += kFloats) {
    load(last.data() + i, flags.data() + i, to + whole + i);
  }
  return {hn::GetLane(hn::MaxOfLanes(d, max)), hn::AllTrue(d, finite)};
}

float MaxLogit(const float* x, std::size_t n) {
  const Floats d;
  auto max = hn::Set(d, kAbsentLogit);
  for (std::size_t i = 0; i < n; i += kFloats) max = hn::Max(max, hn::Load(d, x + i));
  return hn::GetLane(hn::MaxOfLanes(d, max));
}

// ---- exponentials -----------------------------------------------------------------------------

HWY_INLINE hn::Vec<Doubles> PromotedLogits(const float* x) {
  return hn::PromoteTo(Doubles(), hn::LoadU(hn::Rebind<float, Doubles>(), x));
}

HWY_INLINE hn::Vec<Doubles> Weights(hn::Vec<Doubles> x, double max, double inverse) {
  const Doubles d;
  return hn::Exp(d, hn::Mul(hn::Sub(x, hn::Set(d, max)), hn::Set(d, inverse)));
}

HWY_INLINE double SumOfChains(const hn::Vec<Doubles> (&chains)[kChains]) {
  alignas(64) double lane[8];
  for (std::size_t c = 0; c < kChains; ++c) hn::Store(chains[c], Doubles(), lane + c * kDoubles);
  return ((lane[0] + lane[1]) + (lane[2] + lane[3])) + ((lane[4] + lane[5]) + (lane[6] + lane[7]));
}

double SumExp(const float* x, std::size_t n, double max, double inverse) {
  hn::Vec<Doubles> chains[kChains];
  for (auto& chain : chains) chain = hn::Zero(Doubles());
  for (std::size_t i = 0; i < n; i += 8) {
    for (std::size_t c = 0; c < kChains; ++c) {
      chains[c] = hn::Add(chains[c], Weights(PromotedLogits(x + i + c * kDoubles), max, inverse));
    }
  }
  return SumOfChains(chains);
}

BoundSums SumExpAbove(const float* x, std::size_t n, double max, double inverse,
                      const std::array<float, kLogitBounds>& limits) {
  const Doubles d;
  hn::Vec<Doubles> chains[kLogitBounds][kChains];
  for (auto& of_bound : chains) {
    for (auto& chain : of_bound) chain = hn::Zero(d);
  }
  for (std::size_t i = 0; i < n; i += 8) {
    for (std::size_t c = 0; c < kChains; ++c) {
      const auto v = PromotedLogits(x + i + c * kDoubles);
      const auto weight = Weights(v, max, inverse);
      for (std::size_t j = 0; j < kLogitBounds; ++j) {
        const auto above = hn::Gt(v, hn::Set(d, static_cast<double>(limits[j])));
        chains[j][c] = hn::Add(chains[j][c], hn::IfThenElseZero(above, weight));
      }
    }
  }
  BoundSums sums;
  for (std::size_t j = 0; j < kLogitBounds; ++j) sums[j] = SumOfChains(chains[j]);
  return sums;
}

// ---- candidates -------------------------------------------------------------------------------

/// Appends the numbers of the lanes in `mask`, the first lane being `first`.
template <class Mask>
HWY_INLINE std::size_t AppendLanes(Mask mask, std::size_t first, std::uint32_t* to) {
  const hn::Rebind<std::uint32_t, Floats> d;
  const auto numbers = hn::Iota(d, static_cast<std::uint32_t>(first));
  return hn::CompressStore(numbers, hn::RebindMask(d, mask), d, to);
}

std::size_t FindAbove(const float* x, std::size_t begin, std::size_t end, float limit,
                      std::uint32_t* found) {
  const Floats d;
  const auto bar = hn::Set(d, limit);
  std::size_t count = 0;
  for (std::size_t i = begin; i < end; i += kFloats) {
    const auto above = hn::Gt(hn::Load(d, x + i), bar);
    if (hn::AllFalse(d, above)) continue;
    count += AppendLanes(above, i, found + count);
  }
  return count;
}

// The bits that 1 - u loses and 1 - u <= E only make a runner look better, and so does the bound
// on the exponent; the errors of the float32 exponential, 2^-22 of its argument (at most 87) and of
// its value, stay below the margin.
constexpr double kRaceMargin = 1 + 1e-4;

#if HWY_TARGET == HWY_SCALAR

std::size_t FindRunners(const float* x, std::size_t begin, std::size_t end, const LogitRace& race,
                        std::uint32_t* found) {
  std::size_t count = 0;
  const std::size_t even_id = static_cast<std::uint32_t>(race.first_id) / 2 * std::size_t{2};
  for (std::size_t r = begin; r < end; ++r) {
    const double less = static_cast<double>(x[r]) - static_cast<double>(race.max);
    const double u = uniform(race.key, static_cast<std::int32_t>(even_id + r));
    const double weight = std::exp(std::max(less / race.temperature, -87.0));
    if (!(1.0 - u > race.limit * kRaceMargin * weight))
      found[count++] = static_cast<std::uint32_t>(r);
  }
  return count;
}

#else

using Pairs = hn::Repartition<std::uint64_t, Floats>;  // one lane for two ids

/// Philox for the pairs of ids block, block + 1, … Each 32-bit word of its counter has a 64-bit
/// lane. MulEven reads the lower half of a lane only, so what the upper halves gather does no harm.
class PairNoise {
 public:
  explicit PairNoise(const NoiseKey& key) {
    const Pairs d;
    position_ = hn::Set(d, std::uint64_t{key.position});
    sequence_low_ = hn::Set(d, key.sequence & 0xFFFFFFFFULL);
    sequence_high_ = hn::Set(d, key.sequence >> 32);
    auto key0 = static_cast<std::uint32_t>(key.seed);
    auto key1 = static_cast<std::uint32_t>(key.seed >> 32);
    for (int round = 0; round < kPhiloxRounds; ++round) {
      key0_[round] = hn::Set(d, std::uint64_t{key0});
      key1_[round] = hn::Set(d, std::uint64_t{key1});
      key0 += kPhiloxWeyl0;
      key1 += kPhiloxWeyl1;
    }
  }

  /// The upper 24 bits of 1 - u, in the order of the ids.
  HWY_INLINE hn::Vec<Floats> OneLessUniforms(std::uint64_t block) const {
    const Pairs d;
    const auto multiplier0 = Words(hn::Set(d, kPhiloxMultiplier0));
    const auto multiplier1 = Words(hn::Set(d, kPhiloxMultiplier1));
    auto c0 = hn::Iota(d, block);
    auto c1 = position_;
    auto c2 = sequence_low_;
    auto c3 = sequence_high_;
    for (int round = 0; round < kPhiloxRounds; ++round) {
      const auto product0 = hn::MulEven(Words(c0), multiplier0);
      const auto product1 = hn::MulEven(Words(c2), multiplier1);
      c0 = hn::Xor3(UpperHalves(product1), c1, key0_[round]);
      c1 = product1;
      c2 = hn::Xor3(UpperHalves(product0), c3, key1_[round]);
      c3 = product0;
    }
    // Words 1 and 3 hold the upper halves of the numbers of the even and of the odd id.
    const auto low = hn::Set(d, 0xFFFFFFFFULL);
    const auto upper = Words(hn::Or(hn::And(c1, low), hn::ShiftLeft<32>(c3)));
    const hn::Rebind<std::int32_t, Floats> d_int;
    return hn::ConvertTo(Floats(), hn::BitCast(d_int, hn::ShiftRight<8>(hn::Not(upper))));
  }

 private:
  static HWY_INLINE hn::Vec<hn::Rebind<std::uint32_t, Floats> > Words(hn::Vec<Pairs> v) {
    return hn::BitCast(hn::Rebind<std::uint32_t, Floats>(), v);
  }
  static HWY_INLINE hn::Vec<Pairs> UpperHalves(hn::Vec<Pairs> v) {
    return hn::BitCast(Pairs(), hn::Shuffle2301(Words(v)));
  }

  hn::Vec<Pairs> position_, sequence_low_, sequence_high_;
  hn::Vec<Pairs> key0_[kPhiloxRounds], key1_[kPhiloxRounds];
};

std::size_t FindRunners(const float* x, std::size_t begin, std::size_t end, const LogitRace& race,
                        std::uint32_t* found) {
  const Floats d;
  const double scaled = race.limit * kRaceMargin * 0x1p24;
  const auto limit = hn::Set(
      d, scaled < 1e37 ? static_cast<float>(scaled) : std::numeric_limits<float>::infinity());
  const auto max = hn::Set(d, race.max);
  // Bounded, since the best id's 0 times infinity would be no number.
  const auto inverse = hn::Set(d, static_cast<float>(std::min(1 / race.temperature, 1e38)));
  const auto lowest = hn::Set(d, std::numeric_limits<float>::lowest());
  const PairNoise noise(race.key);
  const std::uint64_t first_block = static_cast<std::uint32_t>(race.first_id) / 2;
  std::size_t count = 0;
  for (std::size_t r = begin; r < end; r += kFloats) {
    const auto less = hn::Max(hn::Sub(hn::LoadU(d, x + r), max), lowest);
    const auto weight = hn::Exp(d, hn::Max(hn::Mul(less, inverse), hn::Set(d, -87.0F)));
    const auto lost = hn::Gt(noise.OneLessUniforms(first_block + r / 2), hn::Mul(weight, limit));
    if (hn::AllTrue(d, lost)) continue;
    count += AppendLanes(hn::Not(lost), r, found + count);
  }
  return count;
}

#endif  // HWY_TARGET == HWY_SCALAR

}  // namespace shardlm::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace shardlm {

HWY_EXPORT(LoadLogits);
HWY_EXPORT(MaxLogit);
HWY_EXPORT(SumExp);
HWY_EXPORT(SumExpAbove);
HWY_EXPORT(FindAbove);
HWY_EXPORT(FindRunners);

LogitMax load_logits(const float* row, const std::uint8_t* allowed, std::size_t n,
                     LogitPiece& piece) {
  check(n <= kLogitPiece, "at most a piece of logits");
  piece.size = n;
  return HWY_DYNAMIC_DISPATCH(LoadLogits)(row, allowed, n, piece.data());
}

float max_logit(const LogitPiece& piece) {
  return HWY_DYNAMIC_DISPATCH(MaxLogit)(piece.data(), piece.padded());
}

double sum_exp(const LogitPiece& piece, double max, double inverse) {
  return HWY_DYNAMIC_DISPATCH(SumExp)(piece.data(), piece.padded(), max, inverse);
}

BoundSums sum_exp_above(const LogitPiece& piece, double max, double inverse,
                        const std::array<float, kLogitBounds>& limits) {
  return HWY_DYNAMIC_DISPATCH(SumExpAbove)(piece.data(), piece.padded(), max, inverse, limits);
}

std::size_t find_above(const LogitPiece& piece, std::size_t begin, std::size_t end, float limit,
                       LogitIndices& found) {
  check(begin % kLogitGroup == 0 && end % kLogitGroup == 0 && end <= piece.padded(),
        "whole groups of a piece");
  return HWY_DYNAMIC_DISPATCH(FindAbove)(piece.data(), begin, end, limit, found.data());
}

std::size_t find_runners(const LogitPiece& piece, std::size_t begin, std::size_t end,
                         const LogitRace& race, LogitIndices& found) {
  check(begin % kLogitGroup == 0 && end % kLogitGroup == 0 && end <= piece.padded() + kLogitGroup,
        "whole groups of a piece");
  const float* of_even_id = piece.data() - race.first_id % 2;
  return HWY_DYNAMIC_DISPATCH(FindRunners)(of_even_id, begin, end, race, found.data());
}

}  // namespace shardlm
#endif  // HWY_ONCE
