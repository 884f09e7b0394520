// Maxima and the best candidate of a part of a row, which one warp looks at: kLoads times four
// columns a lane.
#pragma once

#include <cstdint>

#include "backend/cuda/kernels/logit_row.h"

namespace shardlm::cuda {

inline constexpr int kLoads = kPartColumns / (kWarp * kLaneColumns);
static_assert(kLoads * kWarp * kLaneColumns == kPartColumns);

/// The column of a lane's value `at`, given that of value 0.
__device__ __forceinline__ std::int32_t column_at(std::int32_t first, int at) {
  return first + at / kLaneColumns * (kWarp * kLaneColumns) + at % kLaneColumns;
}

__device__ __forceinline__ LogitMaxima no_maxima() {
  return {kAbsent, kAbsent, kNoColumn, kNoColumn, 0};
}

__device__ __forceinline__ void fold_best(LogitMaxima& into, std::uint64_t score,
                                          std::int32_t column) {
  if (score < into.best || (score == into.best && column >= into.best_column)) return;
  into.best = score;
  into.best_column = column;
}

__device__ __forceinline__ void fold(LogitMaxima& into, const LogitMaxima& other) {
  into.raw = fmaxf(into.raw, other.raw);
  into.penalised = fmaxf(into.penalised, other.penalised);
  into.bad_column = min(into.bad_column, other.bad_column);
  fold_best(into, other.best, other.best_column);
}

/// Every lane gets the maxima of all lanes.
__device__ __forceinline__ LogitMaxima fold_maxima(LogitMaxima maxima) {
  for (int distance = kWarp / 2; distance > 0; distance /= 2) {
    LogitMaxima other;
    other.raw = __shfl_xor_sync(kAllLanes, maxima.raw, distance);
    other.penalised = __shfl_xor_sync(kAllLanes, maxima.penalised, distance);
    other.bad_column = __shfl_xor_sync(kAllLanes, maxima.bad_column, distance);
    other.best_column = __shfl_xor_sync(kAllLanes, maxima.best_column, distance);
    other.best = __shfl_xor_sync(kAllLanes, maxima.best, distance);
    fold(maxima, other);
  }
  return maxima;
}

/// Noisy scores in float32 that are good enough to tell who cannot be the best: `high` is at least
/// the score, and some column's score is at least the warp's `bar`, so that whoever's `high` is
/// below the bar needs no exact score. The error is at most 9e-6 + 2e-7 |score|: 4e-6 by the noise
/// (2 ulp a logarithm; the inner one has a small relative error for all u, since 1 - u is
/// converted exactly rounded, too), the rest by x and the sum. Values that are no numbers pass.
struct RoughScores {
  float high[kLoads * kLaneColumns];
  float bar = kAbsent;

  __device__ __forceinline__ RoughScores(const DeviceLogitQuery& query,
                                         const LogitColumns (&columns)[kLoads],
                                         std::int32_t first_id) {
#pragma unroll
    for (int load = 0; load < kLoads; ++load) {
#pragma unroll
      for (int i = 0; i < kLaneColumns; ++i) {
        const int at = load * kLaneColumns + i;
        const float score = rough(query, columns[load].penalised[i], column_at(first_id, at));
        const float error = 3e-5F + 1e-6F * fabsf(score);
        high[at] = score + error;
        if (columns[load].raw[i] != kAbsent) bar = fmaxf(bar, score - error);
      }
    }
    bar = fold_lanes(bar, [](float a, float b) { return fmaxf(a, b); });
  }

  static __device__ __forceinline__ float rough(const DeviceLogitQuery& query, float penalised,
                                                std::int32_t id) {
    constexpr std::uint64_t kOne = std::uint64_t{1} << 53;
    const std::uint64_t bits = uniform_bits(query, id);
    const float u = static_cast<float>(bits) * 0x1p-53F;
    const float rest = static_cast<float>(kOne - bits) * 0x1p-53F;
    const float exponential = u < 0.5F ? -logf(u) : -log1pf(-rest);
    return penalised * query.inverse - logf(exponential);
  }
};

/// Offers the lane's columns to `maxima`; only the warp's best is sure to be among the offers.
__device__ __forceinline__ void find_best(const LogitJob& job, const DeviceLogitQuery& query,
                                          const LogitColumns (&columns)[kLoads], std::int32_t first,
                                          LogitMaxima& maxima) {
  const bool noise = query.noise != 0;
  unsigned open = 0;  // columns whose exact score is needed: few, so a loop over them
  float penalised[kLoads * kLaneColumns];
#pragma unroll
  for (int load = 0; load < kLoads; ++load) {
#pragma unroll
    for (int i = 0; i < kLaneColumns; ++i) {
      const int at = load * kLaneColumns + i;
      penalised[at] = columns[load].penalised[i];
      if (columns[load].raw[i] == kAbsent) continue;
      open |= 1U << at;
      if (noise) continue;
      fold_best(maxima, ordered_bits(static_cast<double>(penalised[at])), column_at(first, at));
    }
  }
  if (!noise) return;
  const RoughScores rough(query, columns, job.shard_begin + first);
#pragma unroll
  for (int at = 0; at < kLoads * kLaneColumns; ++at) {
    if (rough.high[at] < rough.bar) open &= ~(1U << at);
  }
  while (open != 0) {
    const int next = __ffs(static_cast<int>(open)) - 1;
    open &= open - 1;
    float x = 0;
#pragma unroll
    for (int at = 0; at < kLoads * kLaneColumns; ++at) x = at == next ? penalised[at] : x;
    const std::int32_t column = column_at(first, next);
    const double score = noisy_score(query, x, job.shard_begin + column);
    fold_best(maxima, ordered_bits(score), column);
  }
}

}  // namespace shardlm::cuda
