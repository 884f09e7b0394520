#include "backend/cpu/logit_math.h"

#include "backend/cpu/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/logit_math.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h, which includes this file again:
#include <hwy/contrib/math/math-inl.h>
#include <hwy/highway.h>

#include <algorithm>
#include <array>

#include "base/error.h"

HWY_BEFORE_NAMESPACE();
namespace shardlm::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

void shifted_exp_impl(const float* x, std::size_t n, double divisor, double shift, double* weight) {
  const hn::CappedTag<double, 8> d;
  const hn::Rebind<float, decltype(d)> df;
  const auto by = hn::Set(d, divisor);
  const auto minus = hn::Set(d, shift);
  for (std::size_t i = 0; i < n; i += hn::Lanes(d)) {
    auto v = hn::PromoteTo(d, hn::LoadU(df, x + i));
    if (divisor != 1.0) v = hn::Div(v, by);
    hn::StoreU(hn::Exp(d, hn::Sub(v, minus)), d, weight + i);
  }
}

#if HWY_TARGET == HWY_SCALAR

// Blocks first_block, first_block + 1, …: u gets two uniforms a block.
void uniforms_impl(const NoiseKey& key, std::uint32_t first_block, std::size_t n_blocks,
                   double* u) {
  const auto first_id = static_cast<std::int32_t>(2 * first_block);
  for (std::size_t i = 0; i < 2 * n_blocks; ++i) {
    u[i] = uniform(key, first_id + static_cast<std::int32_t>(i));
  }
}

#else

// The same for a vector of blocks at a time (u has room for the last vector). Each 32-bit word of
// the counter has a 64-bit lane; MulEven reads the lower half of a lane only, so what the upper
// halves gather is never seen before it is masked away.
void uniforms_impl(const NoiseKey& key, std::uint32_t first_block, std::size_t n_blocks,
                   double* u) {
  const hn::CappedTag<std::uint64_t, 8> d;
  const hn::Repartition<std::uint32_t, decltype(d)> d32;
  const hn::Repartition<double, decltype(d)> dd;
  const auto words = [&](auto v) HWY_ATTR { return hn::BitCast(d32, v); };
  const auto multiplier0 = words(hn::Set(d, kPhiloxMultiplier0));
  const auto multiplier1 = words(hn::Set(d, kPhiloxMultiplier1));
  const auto low = hn::Set(d, 0xFFFFFFFFULL);
  const auto to_double = [&](auto low_word, auto high_word) HWY_ATTR {
    const auto bits = hn::Or(hn::And(low_word, low), hn::ShiftLeft<32>(high_word));
    const auto one_to_two = hn::Or(hn::ShiftRight<12>(bits), hn::Set(d, 0x3FF0000000000000ULL));
    const auto zero_to_one = hn::Sub(hn::BitCast(dd, one_to_two), hn::Set(dd, 1.0));
    return hn::Add(zero_to_one, hn::Set(dd, 0x1p-53));
  };
  for (std::size_t b = 0; b < n_blocks; b += hn::Lanes(d)) {
    auto c0 = hn::Iota(d, std::uint64_t{first_block} + b);
    auto c1 = hn::Set(d, std::uint64_t{key.position});
    auto c2 = hn::Set(d, key.sequence & 0xFFFFFFFFULL);
    auto c3 = hn::Set(d, key.sequence >> 32);
    auto key0 = static_cast<std::uint32_t>(key.seed);
    auto key1 = static_cast<std::uint32_t>(key.seed >> 32);
    for (int round = 0; round < kPhiloxRounds; ++round) {
      const auto product0 = hn::MulEven(words(c0), multiplier0);
      const auto product1 = hn::MulEven(words(c2), multiplier1);
      c0 = hn::Xor(hn::ShiftRight<32>(product1), hn::Xor(c1, hn::Set(d, std::uint64_t{key0})));
      c1 = product1;
      c2 = hn::Xor(hn::ShiftRight<32>(product0), hn::Xor(c3, hn::Set(d, std::uint64_t{key1})));
      c3 = product0;
      key0 += kPhiloxWeyl0;
      key1 += kPhiloxWeyl1;
    }
    hn::StoreInterleaved2(to_double(c0, c1), to_double(c2, c3), dd, u + 2 * b);
  }
}

#endif  // HWY_TARGET == HWY_SCALAR

}  // namespace shardlm::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace shardlm {

HWY_EXPORT(shifted_exp_impl);
HWY_EXPORT(uniforms_impl);

void shifted_exp(std::span<const float> x, double divisor, double shift, std::span<double> weight) {
  check(x.size() % kLogitGroup == 0 && x.size() == weight.size(), "whole groups of logits");
  HWY_DYNAMIC_DISPATCH(shifted_exp_impl)(x.data(), x.size(), divisor, shift, weight.data());
}

void uniforms(const NoiseKey& key, std::int32_t first_id, std::span<double> u) {
  check(u.size() % kLogitGroup == 0 && u.size() <= kLogitChunk, "whole groups of ids");
  const auto first = static_cast<std::uint32_t>(first_id);
  const std::size_t n_blocks = u.size() / 2;
  if (first % 2 == 0) {
    HWY_DYNAMIC_DISPATCH(uniforms_impl)(key, first / 2, n_blocks, u.data());
    return;
  }
  // An odd first id stands in the middle of a block: one block more, its first half dropped.
  std::array<double, kLogitChunk + kLogitGroup> all;
  HWY_DYNAMIC_DISPATCH(uniforms_impl)(key, first / 2, n_blocks + 1, all.data());
  std::copy_n(all.begin() + 1, u.size(), u.begin());
}

}  // namespace shardlm
#endif  // HWY_ONCE
