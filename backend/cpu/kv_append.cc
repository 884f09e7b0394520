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

template <class Kv>
void AppendKeys(const NewTokens& tokens, std::byte* part) {
  using T = typename Kv::T;
  const HeadCache& cache = tokens.cache;
  const std::int64_t token = tokens.position % cache.block_tokens, column = token % kGroup;
  T* group = reinterpret_cast<T*>(part) + token / kGroup * kGroup * cache.head_dim + column;
  float inverse[kGroup];
  if constexpr (Kv::kScaled) {
    float* scales = reinterpret_cast<float*>(part + cache.key_scales_at) + token;
    for (std::int64_t t = 0; t < tokens.count; ++t) {
      scales[t] = ScaleOf(tokens.keys + t * tokens.key_stride, cache.head_dim, &inverse[t]);
    }
  }
  // 16 dimensions at a time, so that what is written stays in the cache until all tokens are in.
  for (std::int64_t first = 0; first < cache.head_dim; first += kGroup) {
    alignas(64) T rows[kGroup][kGroup];
    const std::int64_t dims = std::min(kGroup, cache.head_dim - first);
    for (std::int64_t t = 0; t < tokens.count; ++t) {
      const float* key = tokens.keys + t * tokens.key_stride + first;
      for (std::int64_t i = 0; i < dims; i += kStep) {
        VecF x = LoadSome(key + i, dims - i);
        if constexpr (Kv::kScaled) x = hn::Mul(x, hn::Set(F(), inverse[t]));
        Kv::Store(x, &rows[t][i]);
      }
    }
    T* to = group + first * kGroup;
    if (tokens.count == kGroup) {  // lengths that the compiler knows
      for (std::int64_t i = 0; i < dims; ++i) {
        for (std::int64_t t = 0; t < kGroup; ++t) to[i * kGroup + t] = rows[t][i];
      }
      continue;
    }
    for (std::int64_t t = 0; t < tokens.count; ++t) {
      for (std::int64_t i = 0; i < dims; ++i) to[i * kGroup + t] = rows[t][i];
    }
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
