// Lists of up to 64 best ids: tiles of the row are sorted, their best merged.
#include "backend/cuda/kernels/logit_row.h"

namespace shardlm::cuda {
namespace {

constexpr int kThreads = 256;
static_assert(kThreads * kLaneColumns == kTileColumns);
constexpr int kListsAtOnce = kTileColumns / kShortList;

/// A finite score and its column as one integer: the better candidate has the greater key, and of
/// equal scores the lower column. 0: none.
__device__ __forceinline__ std::uint64_t key_of(float score, std::int32_t column) {
  return std::uint64_t{ordered_bits(score)} << 32 | ~static_cast<std::uint32_t>(column);
}
__device__ __forceinline__ std::int32_t column_of(std::uint64_t key) {
  return static_cast<std::int32_t>(~static_cast<std::uint32_t>(key));
}

/// Sorts kTileColumns keys, greatest first (bitonic merge sort: Batcher, "Sorting networks and
/// their applications", 1968). Runs of `sorted` keys are in order already: greatest first, the
/// next run smallest first, and so on. All threads of the block; the keys may just be written.
__device__ void sort_keys(std::uint64_t* keys, std::int32_t sorted) {
  for (std::int32_t run = 2 * sorted; run <= kTileColumns; run *= 2) {
    for (std::int32_t distance = run / 2; distance > 0; distance /= 2) {
      __syncthreads();
      for (std::int32_t pair = static_cast<std::int32_t>(threadIdx.x); pair < kTileColumns / 2;
           pair += kThreads) {
        const std::int32_t low = pair / distance * 2 * distance + pair % distance;
        const std::int32_t high = low + distance;
        const bool greatest_first = (low & run) == 0;
        const std::uint64_t a = keys[low], b = keys[high];
        if ((a < b) == greatest_first) {
          keys[low] = b;
          keys[high] = a;
        }
      }
    }
  }
  __syncthreads();
}

/// The kShortList best of each tile: grid [lists, tiles].
__global__ void __launch_bounds__(kThreads) sort_tiles_kernel(LogitJob job) {
  GPU_SHARED(std::uint64_t, keys, [kTileColumns]);
  const std::int64_t slot = blockIdx.x;
  const auto tile = static_cast<std::int32_t>(blockIdx.y);
  const LogitListRef ref = job.short_lists[slot];
  const auto thread = static_cast<std::int32_t>(threadIdx.x);
  const std::int32_t first = tile * kTileColumns + thread * kLaneColumns;
  const LogitColumns columns = load_columns(job, ref.row, first);
  for (int i = 0; i < kLaneColumns; ++i) {
    const float score = ref.list == kTop ? columns.raw[i] : columns.penalised[i];
    keys[thread * kLaneColumns + i] =
        columns.raw[i] == kAbsent ? std::uint64_t{0} : key_of(score, first + i);
  }
  sort_keys(keys, 1);
  std::uint64_t* to = job.short_keys + (slot * job.n_tiles + tile) * kShortList;
  if (thread < kShortList) to[thread] = keys[thread];
}

/// The best of a list's tiles: one block a list, grid [lists].
__global__ void __launch_bounds__(kThreads) merge_tiles_kernel(LogitJob job) {
  GPU_SHARED(std::uint64_t, keys, [kTileColumns]);
  const std::int64_t slot = blockIdx.x;
  const LogitListRef ref = job.short_lists[slot];
  const DeviceLogitList& list = job.queries[ref.row].lists[ref.list];
  DeviceLogitHeader& header = job.headers[ref.row];
  if (header.first_bad_id >= 0) return;
  const auto thread = static_cast<std::int32_t>(threadIdx.x);
  const std::uint64_t* from = job.short_keys + slot * job.n_tiles * kShortList;
  for (std::int32_t tile = 0; tile < job.n_tiles;) {
    const std::int32_t kept = tile > 0 ? 1 : 0;  // run 0 holds the best of the tiles before
    for (std::int32_t i = kept * kShortList + thread; i < kTileColumns; i += kThreads) {
      const std::int32_t run = i / kShortList, at = i % kShortList;
      const std::int32_t source = tile + run - kept;
      const std::int32_t rank = run % 2 == 0 ? at : kShortList - 1 - at;
      keys[i] = source < job.n_tiles ? from[source * kShortList + rank] : 0;
    }
    sort_keys(keys, kShortList);
    tile += kListsAtOnce - kept;
  }
  if (thread >= list.n) return;
  const std::uint64_t key = keys[thread];
  if (key == 0) return;
  const std::int32_t column = column_of(key);
  job.entries[list.entries_at + thread] = {job.shard_begin + column,
                                           job.logits[ref.row * job.stride + column]};
  if (thread + 1 == list.n || keys[thread + 1] == 0) header.n[ref.list] = thread + 1;
}

}  // namespace

void launch_short_lists(cudaStream_t stream, const LogitJob& job) {
  const auto lists = static_cast<unsigned>(job.n_short_lists);
  const auto tiles = static_cast<unsigned>(job.n_tiles);
  gpu::launch({dim3(lists, tiles), dim3(kThreads), 0, stream}, sort_tiles_kernel, job);
  gpu::launch({dim3(lists), dim3(kThreads), 0, stream}, merge_tiles_kernel, job);
}

}  // namespace shardlm::cuda
