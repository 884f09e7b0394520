// How the kernels of query_logits see a row: columns with their penalties.
#pragma once

#include <cstdint>
#include <limits>

#include "backend/cuda/gpu.h"
#include "backend/cuda/kernels/logit_job.h"
#include "backend/cuda/kernels/logit_score.h"

namespace shardlm::cuda {

inline constexpr unsigned kAllLanes = 0xFFFFFFFFU;
inline constexpr int kWarp = 32;

/// Stands for "no such id": never allowed, never a candidate, weight 0.
inline constexpr float kAbsent = -std::numeric_limits<float>::infinity();

/// Four columns of a row. Columns beyond the row or not allowed are kAbsent.
struct LogitColumns {
  float raw[kLaneColumns];
  float penalised[kLaneColumns];
  bool allowed[kLaneColumns];
};

__device__ __forceinline__ void load_raw(const LogitJob& job, std::int64_t row, std::int32_t first,
                                         LogitColumns& columns) {
  const float* from = job.logits + row * job.stride + first;
  const std::uint8_t* allowed = job.allowed + first;
  if (job.aligned != 0 && first + kLaneColumns <= job.width) {
    const float4 x = *reinterpret_cast<const float4*>(from);
    const uchar4 ok = *reinterpret_cast<const uchar4*>(allowed);
    const float raw[kLaneColumns] = {x.x, x.y, x.z, x.w};
    const unsigned char flags[kLaneColumns] = {ok.x, ok.y, ok.z, ok.w};
#pragma unroll
    for (int i = 0; i < kLaneColumns; ++i) {
      columns.allowed[i] = flags[i] != 0;
      columns.raw[i] = columns.allowed[i] ? raw[i] : kAbsent;
    }
    return;
  }
#pragma unroll
  for (int i = 0; i < kLaneColumns; ++i) {
    columns.allowed[i] = first + i < job.width && allowed[i] != 0;
    columns.raw[i] = columns.allowed[i] ? from[i] : kAbsent;
  }
}

/// Index of the first of a row's penalties that is not of a column before `column`.
__device__ __forceinline__ std::int32_t first_penalty(const DeviceLogitPenalty* penalties,
                                                      std::int32_t n, std::int32_t column) {
  std::int32_t begin = 0;
  while (n > 0) {
    const std::int32_t half = n / 2;
    if (penalties[begin + half].column < column) {
      begin += half + 1;
      n -= half + 1;
    } else {
      n = half;
    }
  }
  return begin;
}

/// Columns first, …, first + 3, which may lie beyond the row.
__device__ __forceinline__ LogitColumns load_columns(const LogitJob& job, std::int64_t row,
                                                     std::int32_t first) {
  LogitColumns columns;
  load_raw(job, row, first, columns);
#pragma unroll
  for (int i = 0; i < kLaneColumns; ++i) columns.penalised[i] = columns.raw[i];
  const DeviceLogitQuery& query = job.queries[row];
  const std::int32_t n = query.n_penalties;
  if (n == 0) return columns;
  const DeviceLogitPenalty* penalties = job.penalties + query.penalties_at;
  std::int32_t at = first_penalty(penalties, n, first);
#pragma unroll
  for (int i = 0; i < kLaneColumns; ++i) {
    for (; at < n && penalties[at].column == first + i; ++at) {
      if (columns.raw[i] == kAbsent) continue;
      columns.penalised[i] = penalise_logit(columns.raw[i], query.repetition,
                                            penalties[at].repeated != 0, penalties[at].subtract);
    }
  }
  return columns;
}

/// Folds the lanes' values; every lane gets the result.
template <class T, class F>
__device__ __forceinline__ T fold_lanes(T value, F combine) {
  for (int distance = kWarp / 2; distance > 0; distance /= 2) {
    value = combine(value, __shfl_xor_sync(kAllLanes, value, distance));
  }
  return value;
}

}  // namespace shardlm::cuda
