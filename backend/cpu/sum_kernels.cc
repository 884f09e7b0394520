#include "backend/cpu/sum_kernels.h"

#include "backend/cpu/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/sum_kernels.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h, which includes this file again:
#include <hwy/highway.h>

#include <algorithm>
#include <limits>

#include "backend/cpu/half-inl.h"
#include "backend/cpu/simd_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace shardlm::HWY_NAMESPACE {

/// Calls whole(i) for each full vector of n elements, then rest(i, how many) for what remains.
template <class Whole, class Rest>
HWY_INLINE void ForVectors(std::size_t n, const Whole& whole, const Rest& rest) {
  std::size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) whole(i);
  if (i < n) rest(i, n - i);
}

/// What becomes of a decoded vector: it is stored, or added to what is there.
struct Store {
  HWY_INLINE void operator()(VecF v, float* to) const { hn::StoreU(v, F(), to); }
};
struct Add {  // no fused multiply-add with what made v: all ranks must get the same bits
  HWY_INLINE void operator()(VecF v, float* to) const {
    hn::StoreU(hn::Add(hn::LoadU(F(), to), v), F(), to);
  }
};

/// n elements of `Codec::kBytes` bytes each; short vectors go through a full one in between.
template <class Codec, class Then>
HWY_INLINE void Decode(const std::byte* wire, std::size_t n, float* to, const Then& then) {
  const auto whole = [&](std::size_t i)
                         HWY_ATTR { then(Codec::Load(wire + i * Codec::kBytes), to + i); };
  const auto rest = [&](std::size_t i, std::size_t count) HWY_ATTR {
    alignas(64) std::byte part[kLanes * Codec::kBytes] = {};
    alignas(64) float values[kLanes] = {};
    std::memcpy(part, wire + i * Codec::kBytes, count * Codec::kBytes);
    std::memcpy(values, to + i, count * sizeof(float));
    then(Codec::Load(part), values);
    std::memcpy(to + i, values, count * sizeof(float));
  };
  ForVectors(n, whole, rest);
}

template <class Codec>
HWY_INLINE void Encode(const float* from, std::size_t n, std::byte* wire) {
  const auto whole = [&](std::size_t i) HWY_ATTR {
    Codec::Store(hn::LoadU(F(), from + i), wire + i * Codec::kBytes);
  };
  const auto rest = [&](std::size_t i, std::size_t count) HWY_ATTR {
    alignas(64) std::byte part[kLanes * Codec::kBytes];
    Codec::Store(LoadPart(from + i, count), part);
    std::memcpy(wire + i * Codec::kBytes, part, count * Codec::kBytes);
  };
  ForVectors(n, whole, rest);
}

struct Plain {
  static constexpr std::size_t kBytes = sizeof(float);
  static HWY_INLINE VecF Load(const std::byte* from) {
    return hn::LoadU(F(), reinterpret_cast<const float*>(from));
  }
};

struct Bfloat {
  static constexpr std::size_t kBytes = sizeof(std::uint16_t);
  static HWY_INLINE VecF Load(const std::byte* from) {
    const hn::Rebind<std::uint16_t, F> narrow;
    const auto bits = hn::LoadU(narrow, reinterpret_cast<const std::uint16_t*>(from));
    return hn::BitCast(F(), hn::ShiftLeft<16>(hn::PromoteTo(U(), bits)));
  }
  static HWY_INLINE void Store(VecF v, std::byte* to) {
    StoreNarrow(hn::ShiftRight<16>(UpperBfloatBits(v)), reinterpret_cast<std::uint16_t*>(to));
  }
};

struct Half {
  static constexpr std::size_t kBytes = sizeof(std::uint16_t);
  static HWY_INLINE VecF Load(const std::byte* from) {
    return LoadHalves(reinterpret_cast<const std::uint16_t*>(from));
  }
  static HWY_INLINE void Store(VecF v, std::byte* to) {
    StoreNarrow(HalfBits(v), reinterpret_cast<std::uint16_t*>(to));
  }
};

void AddFloats(const std::byte* from, std::size_t n, float* to) {
  Decode<Plain>(from, n, to, Add());
}

void AddInt64(const std::byte* from, std::size_t n, std::int64_t* to) {
  const hn::ScalableTag<std::uint64_t> d;
  const std::size_t lanes = hn::Lanes(d);
  auto* const sums = reinterpret_cast<std::uint64_t*>(to);
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto addend =
        hn::LoadU(d, reinterpret_cast<const std::uint64_t*>(from + i * sizeof(std::uint64_t)));
    hn::StoreU(hn::Add(hn::LoadU(d, sums + i), addend), d, sums + i);
  }
  for (; i < n; ++i) {
    std::uint64_t addend = 0;
    std::memcpy(&addend, from + i * sizeof addend, sizeof addend);
    sums[i] += addend;
  }
}

void EncodeBfloat(const float* from, std::size_t n, std::byte* wire) {
  Encode<Bfloat>(from, n, wire);
}
void DecodeBfloat(const std::byte* wire, std::size_t n, float* to) {
  Decode<Bfloat>(wire, n, to, Store());
}
void AddBfloat(const std::byte* wire, std::size_t n, float* to) {
  Decode<Bfloat>(wire, n, to, Add());
}

void EncodeHalf(const float* from, std::size_t n, std::byte* wire) { Encode<Half>(from, n, wire); }
void DecodeHalf(const std::byte* wire, std::size_t n, float* to) {
  Decode<Half>(wire, n, to, Store());
}
void AddHalf(const std::byte* wire, std::size_t n, float* to) { Decode<Half>(wire, n, to, Add()); }

// ---- int8 ----

using I = hn::RebindToSigned<F>;
using Bytes = hn::Rebind<std::int8_t, F>;
constexpr std::size_t kBlockBytes = int8_bytes(kInt8Block);

/// One whole block.
HWY_INLINE void EncodeBlock(const float* x, std::byte* wire) {
  const F d;
  const I di;
  // Magnitudes are compared as bit patterns: those of infinities and NaNs are the largest.
  auto most_bits = hn::Zero(di);
  for (std::size_t k = 0; k < kInt8Block; k += kLanes) {
    most_bits = hn::Max(most_bits, hn::BitCast(di, hn::Abs(hn::LoadU(d, x + k))));
  }
  const float most = hn::GetLane(hn::BitCast(d, hn::MaxOfLanes(di, most_bits)));
  const bool finite = most <= std::numeric_limits<float>::max();
  const bool none = !finite || most < 0x1p-100F;
  const float scale =
      none ? (finite ? 0.0F : std::numeric_limits<float>::quiet_NaN()) : most / 127.0F;
  const VecF inverse = hn::Set(d, none ? 0.0F : 127.0F / most);
  std::memcpy(wire, &scale, sizeof scale);
  auto* const values = reinterpret_cast<std::int8_t*>(wire + sizeof scale);
  if (none) {
    std::fill_n(values, kInt8Block, std::int8_t{0});
    return;
  }
  for (std::size_t k = 0; k < kInt8Block; k += kLanes) {
    const auto rounded = hn::NearestInt(hn::Mul(hn::LoadU(d, x + k), inverse));
    hn::StoreU(hn::DemoteTo(Bytes(), rounded), Bytes(), values + k);
  }
}

template <class Then>
HWY_INLINE void DecodeBlock(const std::byte* wire, float* to, const Then& then) {
  float scale = 0;
  std::memcpy(&scale, wire, sizeof scale);
  const auto* const values = reinterpret_cast<const std::int8_t*>(wire + sizeof scale);
  for (std::size_t k = 0; k < kInt8Block; k += kLanes) {
    const auto whole = hn::PromoteTo(I(), hn::LoadU(Bytes(), values + k));
    then(hn::Mul(hn::ConvertTo(F(), whole), hn::Set(F(), scale)), to + k);
  }
}

void EncodeInt8(const float* from, std::size_t n, std::byte* wire) {
  std::size_t i = 0;
  for (; i + kInt8Block <= n; i += kInt8Block, wire += kBlockBytes) EncodeBlock(from + i, wire);
  if (i == n) return;
  alignas(64) float last[kInt8Block] = {};
  alignas(64) std::byte block[kBlockBytes];
  std::memcpy(last, from + i, (n - i) * sizeof(float));
  EncodeBlock(last, block);
  std::memcpy(wire, block, int8_bytes(n - i));
}

template <class Then>
HWY_INLINE void DecodeBlocks(const std::byte* wire, std::size_t n, float* to, const Then& then) {
  std::size_t i = 0;
  for (; i + kInt8Block <= n; i += kInt8Block, wire += kBlockBytes) DecodeBlock(wire, to + i, then);
  if (i == n) return;
  alignas(64) float last[kInt8Block] = {};
  alignas(64) std::byte block[kBlockBytes] = {};
  std::memcpy(block, wire, int8_bytes(n - i));
  std::memcpy(last, to + i, (n - i) * sizeof(float));
  DecodeBlock(block, last, then);
  std::memcpy(to + i, last, (n - i) * sizeof(float));
}

void DecodeInt8(const std::byte* wire, std::size_t n, float* to) {
  DecodeBlocks(wire, n, to, Store());
}
void AddInt8(const std::byte* wire, std::size_t n, float* to) { DecodeBlocks(wire, n, to, Add()); }

}  // namespace shardlm::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace shardlm {

HWY_EXPORT(AddFloats);
HWY_EXPORT(AddInt64);
HWY_EXPORT(EncodeBfloat);
HWY_EXPORT(DecodeBfloat);
HWY_EXPORT(AddBfloat);
HWY_EXPORT(EncodeHalf);
HWY_EXPORT(DecodeHalf);
HWY_EXPORT(AddHalf);
HWY_EXPORT(EncodeInt8);
HWY_EXPORT(DecodeInt8);
HWY_EXPORT(AddInt8);

void add_floats(const std::byte* from, std::size_t n, float* to) {
  HWY_DYNAMIC_DISPATCH(AddFloats)(from, n, to);
}
void add_int64(const std::byte* from, std::size_t n, std::int64_t* to) {
  HWY_DYNAMIC_DISPATCH(AddInt64)(from, n, to);
}
void encode_bf16(const float* from, std::size_t n, std::byte* wire) {
  HWY_DYNAMIC_DISPATCH(EncodeBfloat)(from, n, wire);
}
void decode_bf16(const std::byte* wire, std::size_t n, float* to) {
  HWY_DYNAMIC_DISPATCH(DecodeBfloat)(wire, n, to);
}
void add_bf16(const std::byte* wire, std::size_t n, float* to) {
  HWY_DYNAMIC_DISPATCH(AddBfloat)(wire, n, to);
}
void encode_f16(const float* from, std::size_t n, std::byte* wire) {
  HWY_DYNAMIC_DISPATCH(EncodeHalf)(from, n, wire);
}
void decode_f16(const std::byte* wire, std::size_t n, float* to) {
  HWY_DYNAMIC_DISPATCH(DecodeHalf)(wire, n, to);
}
void add_f16(const std::byte* wire, std::size_t n, float* to) {
  HWY_DYNAMIC_DISPATCH(AddHalf)(wire, n, to);
}
void encode_int8(const float* from, std::size_t n, std::byte* wire) {
  HWY_DYNAMIC_DISPATCH(EncodeInt8)(from, n, wire);
}
void decode_int8(const std::byte* wire, std::size_t n, float* to) {
  HWY_DYNAMIC_DISPATCH(DecodeInt8)(wire, n, to);
}
void add_int8(const std::byte* wire, std::size_t n, float* to) {
  HWY_DYNAMIC_DISPATCH(AddInt8)(wire, n, to);
}

}  // namespace shardlm
#endif
