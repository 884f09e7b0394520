// The pass over the rows and what is made of it: sums, flags, the best candidate, the target.
#include "backend/cuda/kernels/query_logits.h"

#include "backend/cuda/kernels/logit_best.h"
#include "backend/cuda/kernels/logit_row.h"
#include "base/error.h"

namespace shardlm::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / kWarp;

/// exp((x - max) / divisor), max being that of the same part. Three float32 roundings before expf()
/// cost a weight exp(-d) a share of up to 3 * 2^-24 d, and the sum of a part, in which one weight
/// is 1, up to 3 * 2^-24 * 255 d exp(-d) / (1 + 255 exp(-d)), at most 6e-7; expf() adds 1.2e-7.
__device__ __forceinline__ float weight(const DeviceLogitQuery& query, bool tempered, float x,
                                        float max) {
  if (!tempered) return expf(x - max);
  if (query.inverse_is_float != 0) return expf((x - max) * query.inverse);
  const double difference = static_cast<double>(x) - static_cast<double>(max);
  return static_cast<float>(exp(difference / query.divisor));
}

/// The lane's part of both sums.
__device__ __forceinline__ void add_weights(const DeviceLogitQuery& query,
                                            const LogitColumns& columns, LogitPart& part) {
  float raw = 0, tempered = 0;  // of four: 3 * 2^-24 of their sum lost
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
