#include "backend/cpu/attention_kernel.h"

#include "backend/cpu/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/attention_kernel.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h, which includes this file again:
#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <algorithm>
#include <limits>

#include "backend/cpu/kv_types-inl.h"

HWY_BEFORE_NAMESPACE();
namespace shardlm::HWY_NAMESPACE {

constexpr std::int64_t kStep = static_cast<std::int64_t>(kLanes);
constexpr std::int64_t kGroup = CpuKvStorage::kTokenGroup;
// Rows by two vectors: all sums, the two vectors and an input fit the registers.
constexpr int kTall = HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_NEON ? 12 : 6;
static_assert(kTileRows % kTall == 0);

/// 2^x for x <= 0: 2^n of the nearest whole n, times a polynomial of the rest (a fit through the
/// Chebyshev nodes of [-1/2, 1/2], relative error 1e-8).
HWY_INLINE VecF Exp2(VecF x) {
  const F d;
  const VecF whole = hn::Set(d, 0x1.8p23F);  // added, it leaves n in the lowest bits
  const VecF shifted = hn::Add(x, whole);
  const VecF f = hn::Sub(x, hn::Sub(shifted, whole));
  VecF p = hn::Set(d, 0.000154531634F);
  p = hn::MulAdd(p, f, hn::Set(d, 0.00133908633F));
  p = hn::MulAdd(p, f, hn::Set(d, 0.00961808302F));
  p = hn::MulAdd(p, f, hn::Set(d, 0.0555035695F));
  p = hn::MulAdd(p, f, hn::Set(d, 0.240226507F));
  p = hn::MulAdd(p, f, hn::Set(d, 0.693147182F));
  p = hn::MulAdd(p, f, hn::Set(d, 1.0F));
  const I32 di;
  const auto power = hn::ShiftLeft<23>(hn::Add(hn::BitCast(di, shifted), hn::Set(di, 127)));
  // Below -125 (minus infinity too) nothing of the above holds. A NaN goes through.
  return hn::IfThenZeroElse(hn::Lt(x, hn::Set(d, -125.0F)), hn::Mul(p, hn::BitCast(d, power)));
}

HWY_INLINE std::byte* PartOf(const HeadCache& cache, std::int64_t token) {
  const auto block = static_cast<std::size_t>(token / cache.block_tokens);
  return cache.part + cache.blocks[block] * cache.block_bytes;
}

/// One row of one-byte elements leaves too little to do between two blocks for the processor's own
/// prefetching: `bytes` at `from` are asked for while the block before them is worked on.
template <class Kv, int kRows>
HWY_INLINE void Fetch(const void* from, std::int64_t bytes) {
  if constexpr (kRows == 1 && Kv::kScaled) {
    const auto* line = static_cast<const std::byte*>(from);
    for (std::int64_t i = 0; i < bytes; i += 64) hwy::Prefetch(line + i);
  }
}

/// Vectors of tokens: where their keys stand, [head_dim][16], and the keys' scales.
template <class Kv, int kVectors>
struct KeyVectors {
  const typename Kv::T* keys[kVectors];
  const float* scales[kVectors];
};

/// scores[r][v] = sum over d ascending of q[r][d] key[d], for kRows rows and kVectors vectors.
template <class Kv, int kRows, int kVectors>
HWY_NOINLINE void ScoreTile(const KeyVectors<Kv, kVectors>& from, const float* q, std::int64_t dims,
                            float* HWY_RESTRICT scores) {
  const F d;
  const typename Kv::T* k[kVectors];
  for (int v = 0; v < kVectors; ++v) k[v] = from.keys[v];
  VecF sum[kRows][kVectors];
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < kVectors; ++v) sum[r][v] = hn::Zero(d);
  }
  do {
    const std::int64_t count = std::min(dims, kPackedDims);
    std::int64_t i = 0;
    do {
      VecF key[kVectors];
      for (int v = 0; v < kVectors; ++v) {
        key[v] = Kv::Load(k[v]);
        k[v] += kGroup;
      }
      for (int r = 0; r < kRows; ++r) {
        const VecF x = hn::Set(d, q[r * kPackedDims + i]);
        for (int v = 0; v < kVectors; ++v) sum[r][v] = hn::MulAdd(x, key[v], sum[r][v]);
      }
    } while (++i < count);
    dims -= kPackedDims;
    q += kTileRoom * kPackedDims;
  } while (dims > 0);
  for (int v = 0; v < kVectors; ++v) {
    VecF scale = hn::Zero(d);
    if constexpr (Kv::kScaled) scale = hn::Load(d, from.scales[v]);
    for (int r = 0; r < kRows; ++r) {
      VecF score = sum[r][v];
      if constexpr (Kv::kScaled) score = hn::Mul(score, scale);
      hn::Store(score, d, scores + r * kRunTokens + v * kStep);
    }
  }
}

/// The scores of kRows rows for `vectors` <= kVectors vectors of tokens from `token` on (behind
/// them something undefined); `scores` stands at that token.
template <class Kv, int kRows, int kVectors>
HWY_INLINE void ScoreRows(const HeadCache& cache, std::int64_t token, std::int64_t vectors,
                          const float* q, float* scores) {
  KeyVectors<Kv, kVectors> from;
  for (int v = 0; v < kVectors; ++v) {  // too many at the end: the last one once more
    const std::int64_t at = token + std::min<std::int64_t>(v, vectors - 1) * kStep;
    const std::byte* part = PartOf(cache, at);
    const std::int64_t in_block = at % cache.block_tokens;
    from.keys[v] = reinterpret_cast<const typename Kv::T*>(part) +
                   in_block / kGroup * kGroup * cache.head_dim + in_block % kGroup;
    from.scales[v] = reinterpret_cast<const float*>(part + cache.key_scales_at) + in_block;
  }
  ScoreTile<Kv, kRows, kVectors>(from, q, cache.head_dim, scores);
}

template <class Kv, int kRows>
HWY_INLINE void ScoreRun(const HeadCache& cache, std::int64_t begin, std::int64_t end,
                         const float* q, float* scores) {
  constexpr int kVectors = kRows == 1 ? 4 : 2;
  for (std::int64_t token = begin; token < end; token += kVectors * kStep) {
    const std::int64_t vectors = (std::min(end - token, kVectors * kStep) + kStep - 1) / kStep;
    for (std::int64_t ahead = token + kVectors * kStep;
         ahead < std::min(end, token + 2 * kVectors * kStep); ahead += kGroup) {
      Fetch<Kv, kRows>(PartOf(cache, ahead) + ahead % cache.block_tokens * cache.head_dim,
                       kGroup * cache.head_dim);
    }
    if (kRows > 1 && vectors == 1) {
      ScoreRows<Kv, kRows, 1>(cache, token, 1, q, scores + token - begin);
    } else {
      ScoreRows<Kv, kRows, kVectors>(cache, token, vectors, q, scores + token - begin);
    }
  }
}

/// scores[r][j] becomes the weight of token begin + j, j < counts[r]: 2^(score - largest score),
/// times the value's scale if it has one. The counts ascend. A NaN among the scores may be missed
/// by `tops`, never by `totals`.
template <class Kv, int kRows>
HWY_INLINE void Weigh(const HeadCache& cache, std::int64_t begin, const std::int64_t* counts,
                      float* scores, float* totals, float* tops) {
  const F d;
  const std::int64_t padded = (counts[kRows - 1] + kGroup - 1) / kGroup * kGroup;
  constexpr float kNever = -std::numeric_limits<float>::infinity();
  VecF top[kRows], sum[kRows];
  for (int r = 0; r < kRows; ++r) {
    float* row = scores + r * kRunTokens;
    for (std::int64_t j = counts[r]; j < padded; ++j) row[j] = kNever;
    top[r] = hn::Set(d, kNever);
    sum[r] = hn::Zero(d);
  }
  for (std::int64_t j = 0; j < padded; j += kStep) {
    for (int r = 0; r < kRows; ++r) {
      top[r] = hn::Max(top[r], hn::Load(d, scores + r * kRunTokens + j));
    }
  }
  for (int r = 0; r < kRows; ++r) top[r] = hn::MaxOfLanes(d, top[r]);
  for (std::int64_t j = 0; j < padded; j += kStep) {
    VecF scale = hn::Zero(d);
    if constexpr (Kv::kScaled) {
      scale = hn::Load(
          d, reinterpret_cast<const float*>(PartOf(cache, begin + j) + cache.value_scales_at) +
                 (begin + j) % cache.block_tokens);
    }
    for (int r = 0; r < kRows; ++r) {
      float* at = scores + r * kRunTokens + j;
      VecF weight = Exp2(hn::Sub(hn::Load(d, at), top[r]));
      sum[r] = hn::Add(sum[r], weight);
      if constexpr (Kv::kScaled) weight = hn::Mul(weight, scale);
      hn::Store(weight, d, at);
    }
  }
  for (int r = 0; r < kRows; ++r) {
    totals[r] = hn::GetLane(hn::SumOfLanes(d, sum[r]));
    tops[r] = hn::GetLane(top[r]);
  }
}

/// sums[r][0 .. kVectors vectors) += weights[r][token - begin] value[token], tokens ascending in
/// [from, end), from column `column` on.
template <class Kv, int kRows, int kVectors>
HWY_NOINLINE void AddValues(const HeadCache& cache, std::int64_t column, std::int64_t from,
                            std::int64_t end, const float* HWY_RESTRICT weights,
                            float* HWY_RESTRICT sums) {
  const F d;
  const std::int64_t stride = cache.value_stride;
  VecF sum[kRows][kVectors];
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < kVectors; ++v) sum[r][v] = hn::Load(d, sums + r * stride + v * kStep);
  }
  do {
    const std::int64_t in_block = from % cache.block_tokens;
    const auto* value =
        reinterpret_cast<const typename Kv::T*>(PartOf(cache, from) + cache.values_at) +
        in_block * stride + column;
    const std::int64_t count = std::min(end - from, cache.block_tokens - in_block);
    if (from + count < end) {
      Fetch<Kv, kRows>(PartOf(cache, from + count) + cache.values_at, cache.block_tokens * stride);
    }
    std::int64_t j = 0;
    do {
      VecF x[kVectors];
      for (int v = 0; v < kVectors; ++v) x[v] = Kv::Load(value + v * kStep);
      for (int r = 0; r < kRows; ++r) {
        const VecF weight = hn::Set(d, weights[r * kRunTokens + j]);
        for (int v = 0; v < kVectors; ++v) sum[r][v] = hn::MulAdd(weight, x[v], sum[r][v]);
      }
      value += stride;
    } while (++j < count);
    from += count;
    weights += count;
  } while (from < end);
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < kVectors; ++v) hn::Store(sum[r][v], d, sums + r * stride + v * kStep);
  }
}

template <class Kv, int kRows>
HWY_INLINE void AddAllColumns(const HeadCache& cache, std::int64_t from, std::int64_t end,
                              const float* weights, float* sums) {
  constexpr int kVectors = kRows == 1 ? 4 : 2;
  std::int64_t column = 0;
  for (; column + kVectors * kStep <= cache.value_stride; column += kVectors * kStep) {
    AddValues<Kv, kRows, kVectors>(cache, column, from, end, weights, sums + column);
  }
  for (; column < cache.value_stride; column += kStep) {
    AddValues<Kv, kRows, 1>(cache, column, from, end, weights, sums + column);
  }
}

/// kRows rows from `first` on, of which `rows` are there: what is computed for the others is
/// unread.
template <class Kv, int kRows>
HWY_NOINLINE void AttendRows(const QueryTile& tile, std::int64_t begin, std::int64_t first,
                             std::int64_t rows, const TileState& to) {
  const HeadCache& cache = tile.cache;
  const auto end_of = [&](std::int64_t row) {  // row sees the keys up to here
    return std::min(tile.position + row + 1, begin + kRunTokens);
  };
  float* scores = tile.scores + first * kRunTokens;
  float* sums = to.sums + first * to.stride;
  ScoreRun<Kv, kRows>(cache, begin, end_of(first + rows - 1), tile.q + first * kPackedDims, scores);
  constexpr int kTogether = kRows % 4 == 0 ? 4 : kRows % 2 == 0 ? 2 : 1;
  for (int r = 0; r < kRows; r += kTogether) {
    std::int64_t counts[kTogether];
    for (int i = 0; i < kTogether; ++i) {
      counts[i] = end_of(first + std::min<std::int64_t>(r + i, rows - 1)) - begin;
    }
    Weigh<Kv, kTogether>(cache, begin, counts, scores + r * kRunTokens, to.totals + first + r,
                         to.tops + first + r);
  }
  std::fill_n(sums, kRows * to.stride, 0.0F);
  const std::int64_t common = end_of(first);  // all rows see these; then each goes on alone
  AddAllColumns<Kv, kRows>(cache, begin, common, scores, sums);
  for (std::int64_t r = 1; r < rows; ++r) {
    if (end_of(first + r) == common) continue;
    AddAllColumns<Kv, 1>(cache, common, end_of(first + r), scores + r * kRunTokens + common - begin,
                         sums + r * to.stride);
  }
}

template <class Kv>
void AttendRunAs(const QueryTile& tile, std::int64_t begin, const TileState& to) {
  std::int64_t row = first_row_of_run(tile, begin);
  while (row < tile.rows) {
    const std::int64_t rows = std::min<std::int64_t>(tile.rows - row, kTall);
    if (rows > kTall * 2 / 3) {
      AttendRows<Kv, kTall>(tile, begin, row, rows, to);
    } else if (rows > kTall / 3) {
      AttendRows<Kv, kTall * 2 / 3>(tile, begin, row, rows, to);
    } else if (rows > 1) {
      AttendRows<Kv, kTall / 3>(tile, begin, row, rows, to);
    } else {
      AttendRows<Kv, 1>(tile, begin, row, rows, to);
    }
    row += rows;
  }
}

void AttendRun(const QueryTile& tile, std::int64_t begin, const TileState& to) {
  switch (tile.cache.type) {
    case DType::bf16:
      return AttendRunAs<KvBf16>(tile, begin, to);
    case DType::f16:
      return AttendRunAs<KvF16>(tile, begin, to);
    case DType::i8:
      return AttendRunAs<KvI8>(tile, begin, to);
    default:
      return AttendRunAs<KvF32>(tile, begin, to);
  }
}

void PackQueries(const float* q, std::int64_t stride, float scale, const QueryTile& tile) {
  const VecF factor = hn::Set(F(), static_cast<float>(double{scale} * 1.4426950408889634));
  const std::int64_t dim = tile.cache.head_dim;
  for (std::int64_t r = 0; r < tile.rows; ++r) {
    for (std::int64_t i = 0; i < dim; i += kStep) {
      const float* from = q + r * stride + i;
      float* to =
          tile.q + i / kPackedDims * kPackedDims * kTileRoom + r * kPackedDims + i % kPackedDims;
      const VecF x = dim - i >= kStep ? hn::LoadU(F(), from)
                                      : LoadPart(from, static_cast<std::size_t>(dim - i));
      hn::Store(hn::Mul(x, factor), F(), to);
    }
  }
}

void JoinRun(const TileState& run, std::int64_t first, std::int64_t rows, const TileState& to) {
  const F d;
  for (std::int64_t r = first; r < rows; ++r) {
    const VecF old_top = hn::Set(d, to.tops[r]), run_top = hn::Set(d, run.tops[r]);
    const VecF top = hn::Max(old_top, run_top);
    const VecF old_factor = Exp2(hn::Sub(old_top, top)), run_factor = Exp2(hn::Sub(run_top, top));
    const auto join = [&](VecF old_sum, VecF run_sum) HWY_ATTR {
      return hn::MulAdd(old_sum, old_factor, hn::Mul(run_sum, run_factor));
    };
    for (std::int64_t i = r * to.stride; i < (r + 1) * to.stride; i += kStep) {
      hn::Store(join(hn::Load(d, to.sums + i), hn::Load(d, run.sums + i)), d, to.sums + i);
    }
    to.totals[r] = hn::GetLane(join(hn::Set(d, to.totals[r]), hn::Set(d, run.totals[r])));
    to.tops[r] = hn::GetLane(top);
  }
}

void FinishRows(const TileState& state, const QueryTile& tile, float* out,
                std::int64_t out_stride) {
  const F d;
  const std::int64_t dim = tile.cache.head_dim;
  for (std::int64_t r = 0; r < tile.rows; ++r) {
    const VecF inverse = hn::Div(hn::Set(d, 1.0F), hn::Set(d, state.totals[r]));
    for (std::int64_t i = 0; i < dim; i += kStep) {
      const VecF result = hn::Mul(hn::Load(d, state.sums + r * state.stride + i), inverse);
      float* to = out + r * out_stride + i;
      if (dim - i >= kStep) {
        hn::StoreU(result, d, to);
      } else {
        StorePart(result, to, static_cast<std::size_t>(dim - i));
      }
    }
  }
}

void Exp2All(float* x, std::size_t n) {
  for (std::size_t i = 0; i < n; i += kLanes) {
    const std::size_t count = std::min(n - i, kLanes);
    if (count == kLanes) {
      hn::StoreU(Exp2(hn::LoadU(F(), x + i)), F(), x + i);
    } else {
      StorePart(Exp2(LoadPart(x + i, count)), x + i, count);
    }
  }
}

}  // namespace shardlm::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace shardlm {

HWY_EXPORT(AttendRun);
HWY_EXPORT(PackQueries);
HWY_EXPORT(JoinRun);
HWY_EXPORT(FinishRows);
HWY_EXPORT(Exp2All);

std::int64_t first_row_of_run(const QueryTile& tile, std::int64_t begin) {
  return std::clamp<std::int64_t>(begin - tile.position, 0, tile.rows);
}
void pack_queries(const float* q, std::int64_t stride, float scale, const QueryTile& tile) {
  HWY_DYNAMIC_DISPATCH(PackQueries)(q, stride, scale, tile);
}
void attend_run(const QueryTile& tile, std::int64_t begin, const TileState& to) {
  HWY_DYNAMIC_DISPATCH(AttendRun)(tile, begin, to);
}
void join_run(const TileState& run, std::int64_t first, std::int64_t rows, const TileState& to) {
  HWY_DYNAMIC_DISPATCH(JoinRun)(run, first, rows, to);
}
void finish_rows(const TileState& state, const QueryTile& tile, float* out,
                 std::int64_t out_stride) {
  HWY_DYNAMIC_DISPATCH(FinishRows)(state, tile, out, out_stride);
}
void exp2_all(std::span<float> x) { HWY_DYNAMIC_DISPATCH(Exp2All)(x.data(), x.size()); }

}  // namespace shardlm
#endif
