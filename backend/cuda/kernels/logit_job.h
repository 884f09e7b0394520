// What the host packs, the kernels of query_logits hand each other, and the host unpacks.
#pragma once

#include <cuda_runtime_api.h>

#include <cmath>
#include <cstdint>
#include <limits>

#if defined(__CUDACC__)
#define SHARDLM_HOST_DEVICE __host__ __device__
#else
#define SHARDLM_HOST_DEVICE
#endif

namespace shardlm::cuda {

inline constexpr std::int32_t kLaneColumns = 4;     ///< a 16-byte load
inline constexpr std::int32_t kPartColumns = 256;   ///< columns of a LogitPart: two loads a lane
inline constexpr std::int32_t kTileColumns = 1024;  ///< columns that a block sorts
inline constexpr std::int32_t kShortList = 64;      ///< most entries of a short list

/// How a list of best ids is found.
enum class ListPath : std::int32_t {
  none,        ///< nothing is wanted
  single,      ///< the best candidate, found by the pass over the row
  short_list,  ///< tiles sort and hand on their best kShortList; no noise
  long_list,   ///< radix selection over the whole row: any length, noise or not
};

struct DeviceLogitList {
  std::int64_t entries_at;  ///< index of its first DeviceLogitEntry
  std::int32_t n;           ///< entries wanted, at most the shard's width
  ListPath path;
};

inline constexpr int kCandidates = 0, kTop = 1;  ///< index of a row's lists

/// A LogitQuery for the kernels; columns are counted from the shard's begin.
struct DeviceLogitQuery {
  DeviceLogitList lists[2];
  double divisor;  ///< the temperature, or 1
  std::uint64_t seed, sequence;
  std::uint32_t position;
  std::int32_t noise;
  float inverse;                  ///< 1 / divisor
  std::int32_t inverse_is_float;  ///< with no more error than one rounding
  float repetition;
  std::int32_t target;  ///< column, or -1
  std::int64_t penalties_at;
  std::int32_t n_penalties;
  std::int32_t same_weights;  ///< tempered logits are the raw ones
};

/// A list that blocks are to be started for.
struct LogitListRef {
  std::int32_t row, list;
};

struct DeviceLogitPenalty {
  std::int32_t column;
  std::int32_t repeated;
  float subtract;
};

struct DeviceLogitHeader {
  double raw_max, raw_sum, tempered_max, tempered_sum;
  std::int32_t first_bad_id;
  std::int32_t n[2];  ///< entries of the two lists
  std::int32_t has_target;
  float target;
  std::int32_t padding;
};

struct DeviceLogitEntry {
  std::int32_t id;
  float raw;
};

/// Of a set of columns: maxima, the first column that is not finite, the best candidate.
struct LogitMaxima {
  float raw, penalised;      ///< -infinity: no column is allowed
  std::int32_t bad_column;   ///< kNoColumn: all are finite
  std::int32_t best_column;  ///< of equal scores the lowest
  std::uint64_t best;        ///< ordered_bits(score); 0: none
};
inline constexpr std::int32_t kNoColumn = std::numeric_limits<std::int32_t>::max();

/// What one warp finds in kPartColumns columns of a row.
struct LogitPart {
  LogitMaxima maxima;
  double raw_sum, tempered_sum;  ///< of exp(x - maxima.raw), exp((p - maxima.penalised) / divisor)
};

/// Everything the kernels are given.
struct LogitJob {
  const float* logits;
  std::int64_t stride;
  const std::uint8_t* allowed;
  std::int32_t rows, width, shard_begin;
  std::int32_t aligned;  ///< four columns at a time may be loaded at once
  const DeviceLogitQuery* queries;
  const LogitListRef* short_lists;  ///< [n_short_lists]
  const LogitListRef* long_lists;   ///< [n_long_lists]
  const DeviceLogitPenalty* penalties;
  std::int32_t n_short_lists, n_long_lists;
  std::int32_t n_parts, n_tiles;  ///< of a row
  LogitPart* parts;               ///< [rows, n_parts]
  std::uint64_t* short_keys;      ///< [short lists, n_tiles, kShortList], best first
  DeviceLogitHeader* headers;     ///< [rows]
  DeviceLogitEntry* entries;
};

inline constexpr float kLargestFloat = std::numeric_limits<float>::max();

/// A penalised logit, the same bits on host and device. The product is rounded from an exact one,
/// as float32 multiplication does, so that no compiler fuses it with the subtraction.
SHARDLM_HOST_DEVICE inline float penalise_logit(float logit, float repetition, bool repeated,
                                                float subtract) {
  float x = logit;
  if (repeated) {
    x = x > 0 ? x / repetition
              : static_cast<float>(static_cast<double>(x) * static_cast<double>(repetition));
  }
  x -= subtract;
  return fabsf(x) <= kLargestFloat ? x : copysignf(kLargestFloat, x);
}

void launch_short_lists(cudaStream_t stream, const LogitJob& job);
void launch_long_lists(cudaStream_t stream, const LogitJob& job);

}  // namespace shardlm::cuda
