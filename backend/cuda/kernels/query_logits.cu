// The pass over the rows and what is made of it: sums, flags, the best candidate, the target.
#include "backend/cuda/kernels/query_logits.h"

#include "backend/cuda/kernels/logit_row.h"
#include "base/error.h"

namespace shardlm::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / kWarp;
constexpr int kLoads = kPartColumns / (kWarp * kLaneColumns);
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
    return penalised * query.inverse_high - logf(exponential);
  }
};

/// Offers the lane's columns to `maxima`; only the warp's best is sure to be among the offers.
__device__ void find_best(const LogitJob& job, const DeviceLogitQuery& query,
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
      if (!noise)
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

/// exp((x - max) / divisor) for x <= max in float32, within 1.3e-7 of its value: what the
/// subtraction and the product round away is put back as a first-order correction.
__device__ __forceinline__ float weight(const DeviceLogitQuery& query, bool tempered, float x,
                                        float max) {
  const float high = tempered ? query.inverse_high : 1.0F;
  const float low = tempered ? query.inverse_low : 0.0F;
  const float difference = x - max;
  const float max_part = difference - x;  // two-sum (Knuth): the exact error of the difference
  const float error = (x - (difference - max_part)) + (-max - max_part);
  const float exponent = difference * high;
  if (exponent < -100) return 0;  // exp() is below the smallest normal float there
  const float rest = fmaf(difference, high, -exponent) + (difference * low + error * high);
  if (fabsf(rest) <= 1e-4F) {
    const float w = expf(exponent);
    return fmaf(w, rest, w);
  }
  // Logits near the end of the float range, or a temperature beyond it.
  const double divisor = tempered ? query.divisor : 1.0;
  return static_cast<float>(exp((static_cast<double>(x) - static_cast<double>(max)) / divisor));
}

/// The lane's part of both sums.
__device__ __forceinline__ void add_weights(const DeviceLogitQuery& query,
                                            const LogitColumns& columns, LogitPart& part) {
  float raw = 0, tempered = 0;  // of four: at most 2^-22 of their sum lost
#pragma unroll
  for (int i = 0; i < kLaneColumns; ++i) {
    if (columns.raw[i] == kAbsent) continue;
    raw += weight(query, false, columns.raw[i], part.maxima.raw);
    if (query.same_weights != 0) continue;
    tempered += weight(query, true, columns.penalised[i], part.maxima.penalised);
  }
  part.raw_sum += static_cast<double>(raw);
  part.tempered_sum += static_cast<double>(tempered);
}

/// One warp a part, eight parts a block: grid [rows, parts / 8].
__global__ void __launch_bounds__(kThreads) scan_kernel(LogitJob job) {
  const std::int64_t row = blockIdx.x;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const std::int32_t part_index = static_cast<std::int32_t>(blockIdx.y) * kWarps +
                                  static_cast<std::int32_t>(threadIdx.x) / kWarp;
  if (part_index >= job.n_parts) return;
  const DeviceLogitQuery& query = job.queries[row];
  const std::int32_t first = part_index * kPartColumns + lane * kLaneColumns;

  LogitColumns columns[kLoads];
#pragma unroll
  for (int load = 0; load < kLoads; ++load) {
    columns[load] = load_columns(job, row, first + load * kWarp * kLaneColumns);
  }
  LogitPart part{no_maxima(), 0, 0};
#pragma unroll
  for (int load = 0; load < kLoads; ++load) {
#pragma unroll
    for (int i = 0; i < kLaneColumns; ++i) {
      const float raw = columns[load].raw[i];
      part.maxima.raw = fmaxf(part.maxima.raw, raw);
      part.maxima.penalised = fmaxf(part.maxima.penalised, columns[load].penalised[i]);
      const bool finite = fabsf(raw) <= kLargestFloat;
      if (columns[load].allowed[i] && !finite) {
        part.maxima.bad_column =
            min(part.maxima.bad_column, column_at(first, load * kLaneColumns + i));
      }
    }
  }
  if (query.lists[kCandidates].path == ListPath::single) {
    find_best(job, query, columns, first, part.maxima);
  }
  part.maxima = fold_maxima(part.maxima);
#pragma unroll
  for (int load = 0; load < kLoads; ++load) add_weights(query, columns[load], part);
  const auto add = [](double a, double b) { return a + b; };
  part.raw_sum = fold_lanes(part.raw_sum, add);
  part.tempered_sum = fold_lanes(part.tempered_sum, add);
  if (lane == 0) job.parts[row * job.n_parts + part_index] = part;
}

/// A row's header. `sums` are those of the weights relative to `maxima`.
__device__ void answer(const LogitJob& job, std::int64_t row, const LogitMaxima& maxima,
                       double raw_sum, double tempered_sum) {
  const DeviceLogitQuery& query = job.queries[row];
  const double none = static_cast<double>(kAbsent);
  DeviceLogitHeader header{none, 0, none, 0, -1, {0, 0}, 0, 0, 0};
  if (maxima.bad_column != kNoColumn) {
    header.first_bad_id = job.shard_begin + maxima.bad_column;
  } else if (maxima.raw != kAbsent) {
    const float* logits = job.logits + row * job.stride;
    header.raw_max = static_cast<double>(maxima.raw);
    header.raw_sum = raw_sum;
    header.tempered_max = static_cast<double>(maxima.penalised) / query.divisor;
    header.tempered_sum = query.same_weights != 0 ? raw_sum : tempered_sum;
    if (query.target >= 0 && job.allowed[query.target] != 0) {
      header.has_target = 1;
      header.target = logits[query.target];
    }
    if (query.lists[kCandidates].path == ListPath::single) {
      header.n[kCandidates] = 1;
      job.entries[query.lists[kCandidates].entries_at] = {job.shard_begin + maxima.best_column,
                                                          logits[maxima.best_column]};
    }
  }
  job.headers[row] = header;
}

/// One block a row: folds the row's parts in a fixed order. Grid [rows].
__global__ void __launch_bounds__(kThreads) finish_kernel(LogitJob job) {
  GPU_SHARED(LogitMaxima, warp_maxima, [kWarps]);
  GPU_SHARED(double, warp_sums, [kWarps][2]);
  const std::int64_t row = blockIdx.x;
  const int thread = static_cast<int>(threadIdx.x), warp = thread / kWarp;
  const DeviceLogitQuery& query = job.queries[row];
  const LogitPart* parts = job.parts + row * job.n_parts;

  LogitMaxima maxima = no_maxima();
  for (std::int32_t i = thread; i < job.n_parts; i += kThreads) fold(maxima, parts[i].maxima);
  maxima = fold_maxima(maxima);
  if (thread % kWarp == 0) warp_maxima[warp] = maxima;
  __syncthreads();
  for (int i = 0; i < kWarps; ++i) fold(maxima, warp_maxima[i]);

  double raw_sum = 0, tempered_sum = 0;
  for (std::int32_t i = thread; i < job.n_parts; i += kThreads) {
    const LogitMaxima& own = parts[i].maxima;
    if (own.raw == kAbsent) continue;
    const double raw_less = static_cast<double>(own.raw) - static_cast<double>(maxima.raw);
    raw_sum += parts[i].raw_sum * exp(raw_less);
    if (query.same_weights != 0) continue;
    const double less = static_cast<double>(own.penalised) - static_cast<double>(maxima.penalised);
    tempered_sum += parts[i].tempered_sum * exp(less / query.divisor);
  }
  const auto add = [](double a, double b) { return a + b; };
  raw_sum = fold_lanes(raw_sum, add);
  tempered_sum = fold_lanes(tempered_sum, add);
  if (thread % kWarp == 0) {
    warp_sums[warp][0] = raw_sum;
    warp_sums[warp][1] = tempered_sum;
  }
  __syncthreads();
  if (thread != 0) return;
  for (int i = 1; i < kWarps; ++i) {
    raw_sum += warp_sums[i][0];
    tempered_sum += warp_sums[i][1];
  }
  answer(job, row, maxima, raw_sum, tempered_sum);
}

bool is_aligned(const void* address, std::size_t bytes) {
  return reinterpret_cast<std::uintptr_t>(address) % bytes == 0;
}

LogitJob make_job(const MatrixView& logits, const LogitPlan& plan, const LogitMemory& memory) {
  LogitJob job{};
  job.logits = static_cast<const float*>(logits.data);
  job.stride = logits.stride;
  job.allowed = memory.allowed;
  job.rows = static_cast<std::int32_t>(plan.rows);
  job.width = static_cast<std::int32_t>(plan.width);
  job.shard_begin = plan.shard_begin;
  const bool aligned = is_aligned(logits.data, sizeof(float4)) && logits.stride % 4 == 0 &&
                       is_aligned(memory.allowed, sizeof(uchar4));
  job.aligned = aligned ? 1 : 0;
  job.queries = static_cast<const DeviceLogitQuery*>(memory.upload);
  job.short_lists = reinterpret_cast<const LogitListRef*>(job.queries + plan.rows);
  job.long_lists = job.short_lists + plan.n_short_lists;
  job.penalties = reinterpret_cast<const DeviceLogitPenalty*>(job.long_lists + plan.n_long_lists);
  job.n_short_lists = static_cast<std::int32_t>(plan.n_short_lists);
  job.n_long_lists = static_cast<std::int32_t>(plan.n_long_lists);
  job.n_parts = (job.width + kPartColumns - 1) / kPartColumns;
  job.n_tiles = (job.width + kTileColumns - 1) / kTileColumns;
  job.parts = static_cast<LogitPart*>(memory.scratch);
  job.short_keys = reinterpret_cast<std::uint64_t*>(job.parts + plan.rows * job.n_parts);
  job.headers = static_cast<DeviceLogitHeader*>(memory.reply);
  job.entries = reinterpret_cast<DeviceLogitEntry*>(job.headers + plan.rows);
  return job;
}

}  // namespace

void query_logits(cudaStream_t stream, const MatrixView& logits, const LogitPlan& plan,
                  const LogitMemory& memory) {
  check(logits.dtype == DType::f32, "float32 logits");
  check(logits.rows == plan.rows && logits.cols == plan.width, "the plan's logits");
  if (plan.rows == 0) return;
  const LogitJob job = make_job(logits, plan, memory);
  const auto rows = static_cast<unsigned>(job.rows);
  if (job.n_parts > 0) {
    const auto blocks = static_cast<unsigned>((job.n_parts + kWarps - 1) / kWarps);
    gpu::launch({dim3(rows, blocks), dim3(kThreads), 0, stream}, scan_kernel, job);
  }
  gpu::launch({dim3(rows), dim3(kThreads), 0, stream}, finish_kernel, job);
  if (job.n_short_lists > 0) launch_short_lists(stream, job);
  if (job.n_long_lists > 0) launch_long_lists(stream, job);
}

}  // namespace shardlm::cuda
