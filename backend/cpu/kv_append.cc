#include "backend/cpu/kv_append.h"

#include "backend/cpu/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/kv_append.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h, which includes this file again:
#include <hwy/highway.h>

#include <algorithm>

#include "backend/cpu/kv_types-inl.h"

HWY_BEFORE_NAMESPACE();
namespace shardlm::HWY_NAMESPACE {

constexpr std::int64_t kStep = static_cast<std::int64_t>(kLanes);
constexpr std::int64_t kGroup = CpuKvStorage::kTokenGroup;

HWY_INLINE VecF LoadSome(const float* p, std::int64_t count) {
  return count >= kStep ? hn::LoadU(F(), p) : LoadPart(p, static_cast<std::size_t>(count));
}

/// The scale of one token's elements; `inverse` is what to multiply them with.
float ScaleOf(const float* x, std::int64_t dim, float* inverse) {
  const F d;
  VecF largest = hn::Zero(d), poison = hn::Zero(d);  // 0 x is NaN for a NaN and for an infinity
  for (std::int64_t i = 0; i < dim; i += kStep) {
    const VecF part = LoadSome(x + i, dim - i);
    largest = hn::Max(largest, hn::Abs(part));
    poison = hn::MulAdd(part, hn::Zero(d), poison);
  }
  const float top = hn::GetLane(hn::MaxOfLanes(d, largest));
  const float bad = hn::GetLane(hn::SumOfLanes(d, poison));
  const bool vanishes = top < 1e-36F;  // 127 / top would overflow
  *inverse = vanishes ? 0.0F : 127.0F / top;
  return (vanishes ? 0.0F : top / 127.0F) + bad;
}

/// A whole group: columns are gathered and stored as rows.
template <class Kv>
HWY_NOINLINE void StoreGroup(const NewTokens& tokens, const float* inverse, typename Kv::T* group) {
  const I32 di;
  const auto stride = static_cast<std::int32_t>(tokens.key_stride);
  const auto offsets = hn::Mul(hn::Iota(di, 0), hn::Set(di, stride));
  for (std::int64_t t = 0; t < kGroup; t += kStep) {
    const float* keys = tokens.keys + t * tokens.key_stride;
    const VecF factor = hn::Load(F(), inverse + t);
    for (std::int64_t i = 0; i < tokens.cache.head_dim; ++i) {
      VecF x = hn::GatherIndex(F(), keys + i, offsets);
      if constexpr (Kv::kScaled) x = hn::Mul(x, factor);
      Kv::Store(x, group + i * kGroup + t);
    }
  }
}

/// One token of a group.
template <class Kv>
HWY_INLINE void StoreColumn(const float* key, std::int64_t dim, float inverse,
                            typename Kv::T* column) {
  for (std::int64_t i = 0; i < dim; i += kStep) {
    alignas(64) typename Kv::T narrow[kLanes];
    VecF x = LoadSome(key + i, dim - i);
    if constexpr (Kv::kScaled) x = hn::Mul(x, hn::Set(F(), inverse));
    Kv::Store(x, narrow);
    const std::int64_t count = std::min(kStep, dim - i);
    for (std::int64_t j = 0; j < count; ++j) column[(i + j) * kGroup] = narrow[j];
  }
}

template <class Kv>
void AppendKeys(const NewTokens& tokens, std::byte* part) {
  const HeadCache& cache = tokens.cache;
  const std::int64_t token = tokens.position % cache.block_tokens, column = token % kGroup;
  auto* group =
      reinterpret_cast<typename Kv::T*>(part) + token / kGroup * kGroup * cache.head_dim + column;
  alignas(64) float inverse[kGroup] = {};
  if constexpr (Kv::kScaled) {
    float* scales = reinterpret_cast<float*>(part + cache.key_scales_at) + token;
    for (std::int64_t t = 0; t < tokens.count; ++t) {
      scales[t] = ScaleOf(tokens.keys + t * tokens.key_stride, cache.head_dim, &inverse[t]);
    }
  }
  if (tokens.count == kGroup) return StoreGroup<Kv>(tokens, inverse, group);
  for (std::int64_t t = 0; t < tokens.count; ++t) {
    StoreColumn<Kv>(tokens.keys + t * tokens.key_stride, cache.head_dim, inverse[t], group + t);
  }
}

template <class Kv>
void AppendValues(const NewTokens& tokens, std::byte* part) {
  using T = typename Kv::T;
  const HeadCache& cache = tokens.cache;
  const std::int64_t token = tokens.position % cache.block_tokens;
  T* to = reinterpret_cast<T*>(part + cache.values_at) + token * cache.value_stride;
  for (std::int64_t t = 0; t < tokens.count; ++t, to += cache.value_stride) {
    const float* value = tokens.values + t * tokens.value_stride;
    float inverse = 1;
    if constexpr (Kv::kScaled) {
      reinterpret_cast<float*>(part + cache.value_scales_at)[token + t] =
          ScaleOf(value, cache.head_dim, &inverse);
    }
    for (std::int64_t i = 0; i < cache.head_dim; i += kStep) {
      VecF x = LoadSome(value + i, cache.head_dim - i);
      if constexpr (Kv::kScaled) x = hn::Mul(x, hn::Set(F(), inverse));
      Kv::Store(x, to + i);
    }
  }
}

template <class Kv>
void AppendAs(const NewTokens& tokens) {
  const HeadCache& cache = tokens.cache;
  const auto block = static_cast<std::size_t>(tokens.position / cache.block_tokens);
  std::byte* part = cache.part + cache.blocks[block] * cache.block_bytes;
  AppendKeys<Kv>(tokens, part);
  AppendValues<Kv>(tokens, part);
}

void Append(const NewTokens& tokens) {
  switch (tokens.cache.type) {
    case DType::bf16:
      return AppendAs<KvBf16>(tokens);
    case DType::f16:
      return AppendAs<KvF16>(tokens);
    case DType::i8:
      return AppendAs<KvI8>(tokens);
    default:
      return AppendAs<KvF32>(tokens);
  }
}

}  // namespace shardlm::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace shardlm {

HWY_EXPORT(Append);

void append_tokens(const NewTokens& tokens) { HWY_DYNAMIC_DISPATCH(Append)(tokens); }

}  // namespace shardlm
#endif
