#include "backend/cpu/attention.h"
#include "backend/cpu/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/attention_kernel.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h, which includes this file again:
#include <hwy/highway.h>

#include <algorithm>
#include <limits>

#include "backend/cpu/simd_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace shardlm::HWY_NAMESPACE {

constexpr std::int64_t kLaneCount = static_cast<std::int64_t>(kLanes);
constexpr int kAtOnce = 4;  // independent chains, to hide the latency of a multiply-add

/// scores[j] = scale * sum over d ascending of q[d] key[j, d] for j < tokens; behind them, to the
/// next multiple of 16 (at least), whatever stands in the block.
void Scores(const HeadQuery& query) {
  const F d;
  const VecF scale = hn::Set(d, query.scale);
  const std::int64_t groups = (query.tokens + kLaneCount - 1) / kLaneCount;
  const std::int64_t groups_per_block = query.block_tokens / kLaneCount;
  for (std::int64_t first = 0; first < groups; first += kAtOnce) {
    const float* keys[kAtOnce];
    for (int g = 0; g < kAtOnce; ++g) {  // too many at the end: the last one once more
      const std::int64_t group = std::min(first + g, groups - 1);
      const auto block = static_cast<std::size_t>(group / groups_per_block);
      keys[g] = query.keys + query.blocks[block] * query.block_floats +
                group % groups_per_block * kLaneCount;
    }
    VecF sum[kAtOnce];
    for (int g = 0; g < kAtOnce; ++g) sum[g] = hn::Zero(d);
    for (std::int64_t i = 0; i < query.head_dim; ++i) {
      const VecF q = hn::Set(d, query.q[i]);
      for (int g = 0; g < kAtOnce; ++g) {
        sum[g] = hn::MulAdd(q, hn::LoadU(d, keys[g] + i * query.block_tokens), sum[g]);
      }
    }
    for (int g = 0; g < kAtOnce; ++g) {
      hn::StoreU(hn::Mul(sum[g], scale), d, query.scores + (first + g) * kLaneCount);
    }
  }
}

/// scores[j] = exp(scores[j] - their maximum) for j < tokens. Returns the sum. A NaN among the
/// scores may be missed by the maximum, never by the sum.
float Exponentiate(float* scores, std::int64_t tokens) {
  const F d;
  const std::int64_t padded = (tokens + kLaneCount - 1) / kLaneCount * kLaneCount;
  constexpr float kNever = -std::numeric_limits<float>::infinity();
  std::fill(scores + tokens, scores + padded, kNever);
  VecF top = hn::Set(d, kNever);
  for (std::int64_t j = 0; j < padded; j += kLaneCount)
    top = hn::Max(top, hn::LoadU(d, scores + j));
  const VecF maximum = hn::MaxOfLanes(d, top);
  VecF sum = hn::Zero(d);
  for (std::int64_t j = 0; j < padded; j += kLaneCount) {
    const VecF weight = ExpAll(hn::Sub(hn::LoadU(d, scores + j), maximum));
    hn::StoreU(weight, d, scores + j);
    sum = hn::Add(sum, weight);
  }
  return hn::GetLane(hn::SumOfLanes(d, sum));
}

/// out[0 .. kVectors vectors) = sum over j ascending of weights[j] value[j] / total, from column
/// `column` on; only `count` of the columns are stored. Reads whole vectors: the storage has slack.
template <int kVectors>
HWY_INLINE void WeightedValues(const HeadQuery& query, VecF total, std::int64_t column,
                               std::int64_t count) {
  const F d;
  VecF sum[kVectors];
  for (int v = 0; v < kVectors; ++v) sum[v] = hn::Zero(d);
  for (std::int64_t first = 0; first < query.tokens; first += query.block_tokens) {
    const auto block = static_cast<std::size_t>(first / query.block_tokens);
    const float* value = query.values + query.blocks[block] * query.block_floats + column;
    const std::int64_t end = std::min(first + query.block_tokens, query.tokens);
    for (std::int64_t j = first; j < end; ++j, value += query.head_dim) {
      const VecF weight = hn::Set(d, query.scores[j]);
      for (int v = 0; v < kVectors; ++v) {
        sum[v] = hn::MulAdd(weight, hn::LoadU(d, value + v * kLaneCount), sum[v]);
      }
    }
  }
  for (int v = 0; v < kVectors; ++v) {
    float* out = query.out + column + v * kLaneCount;
    const std::int64_t left = count - v * kLaneCount;
    const VecF result = hn::Div(sum[v], total);
    if (left >= kLaneCount) {
      hn::StoreU(result, d, out);
    } else {
      StorePart(result, out, static_cast<std::size_t>(left));
    }
  }
}

void Attend(const HeadQuery& query) {
  Scores(query);
  const VecF total = hn::Set(F(), Exponentiate(query.scores, query.tokens));
  for (std::int64_t column = 0; column < query.head_dim; column += kAtOnce * kLaneCount) {
    const std::int64_t count = std::min(query.head_dim - column, kAtOnce * kLaneCount);
    switch ((count + kLaneCount - 1) / kLaneCount) {
      case 1:
        WeightedValues<1>(query, total, column, count);
        break;
      case 2:
        WeightedValues<2>(query, total, column, count);
        break;
      case 3:
        WeightedValues<3>(query, total, column, count);
        break;
      default:
        WeightedValues<kAtOnce>(query, total, column, count);
        break;
    }
  }
}

}  // namespace shardlm::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace shardlm {

HWY_EXPORT(Attend);

void attend(const HeadQuery& query) { HWY_DYNAMIC_DISPATCH(Attend)(query); }

// Scores are written in groups of up to 4 vectors of 16 floats.
std::int64_t attention_scratch(std::int64_t tokens) { return (tokens + 63) / 64 * 64; }

}  // namespace shardlm
#endif
