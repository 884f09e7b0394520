// Lists of any length: radix selection over a row's scores by one block. The order of the entries
// is left to the host.
#include "backend/cuda/kernels/logit_row.h"

namespace shardlm::cuda {
namespace {

constexpr int kThreads = 512;
constexpr int kWarps = kThreads / kWarp;
constexpr int kBinBits = 9;
static_assert(1 << kBinBits == kThreads, "a bin a thread");

/// Where a selection ends: all keys above `key` are taken and `wanted` of the `count` equal to it.
/// If wanted = count, keys above include some more: all keys >= `key` are taken then, and they are
/// as many as were asked for.
struct Cut {
  std::uint64_t key;
  std::int32_t wanted, count;
};

struct KeyRange {
  std::uint64_t low, high;
  std::int32_t count;
};

__device__ __forceinline__ std::int32_t bit_length(std::uint64_t x) {
  const auto high = static_cast<int>(static_cast<std::uint32_t>(x >> 32));
  return high != 0 ? 64 - __clz(high) : 32 - __clz(static_cast<int>(static_cast<std::uint32_t>(x)));
}

/// The range of the keys of all threads. visit(f) calls f(key) for each key of this thread.
template <class Visit>
__device__ KeyRange range_of(const Visit& visit) {
  GPU_SHARED(KeyRange, warp_ranges, [kWarps]);
  KeyRange range{~std::uint64_t{0}, 0, 0};
  visit([&](std::uint64_t key) {
    range.low = min(range.low, key);
    range.high = max(range.high, key);
    ++range.count;
  });
  range.low = fold_lanes(range.low, [](std::uint64_t a, std::uint64_t b) { return min(a, b); });
  range.high = fold_lanes(range.high, [](std::uint64_t a, std::uint64_t b) { return max(a, b); });
  range.count = fold_lanes(range.count, [](std::int32_t a, std::int32_t b) { return a + b; });
  if (threadIdx.x % kWarp == 0) warp_ranges[threadIdx.x / kWarp] = range;
  __syncthreads();
  range = warp_ranges[0];
  for (int i = 1; i < kWarps; ++i) {
    range.low = min(range.low, warp_ranges[i].low);
    range.high = max(range.high, warp_ranges[i].high);
    range.count += warp_ranges[i].count;
  }
  return range;
}

/// Finds the bin (one a thread) in which the `wanted`-th key from the top lies: `cut` becomes the
/// bin's number, how many keys of it are wanted, and how many it holds.
__device__ void find_bin(std::int32_t inside, std::int32_t wanted, Cut& cut) {
  GPU_SHARED(std::int32_t, warp_totals, [kWarps]);
  GPU_SHARED(Cut, found);
  const auto thread = static_cast<int>(threadIdx.x);
  const int lane = thread % kWarp, warp = thread / kWarp;
  std::int32_t from_here = inside;  // in this bin and those of the warp above
  for (int distance = 1; distance < kWarp; distance *= 2) {
    const std::int32_t other =
        __shfl_down_sync(kAllLanes, from_here, static_cast<unsigned>(distance));
    if (lane + distance < kWarp) from_here += other;
  }
  if (lane == 0) warp_totals[warp] = from_here;
  __syncthreads();
  std::int32_t above = from_here - inside;
  for (int i = warp + 1; i < kWarps; ++i) above += warp_totals[i];
  if (above < wanted && wanted <= above + inside) {
    found = {static_cast<std::uint64_t>(thread), wanted - above, inside};
  }
  __syncthreads();
  cut = found;
}

/// The cut that takes the `wanted` greatest of all threads' keys. Each round spreads the keys that
/// are still open over 512 bins and goes on with one of them.
template <class Visit>
__device__ Cut find_cut(const Visit& visit, std::int32_t wanted) {
  GPU_SHARED(std::int32_t, histogram, [kThreads]);
  const KeyRange range = range_of(visit);
  if (range.count <= wanted) return {0, range.count, range.count};  // no key is 0: all are taken
  std::uint64_t base = range.low;
  std::int32_t bits = bit_length(range.high - range.low);
  for (;;) {
    histogram[threadIdx.x] = 0;
    __syncthreads();
    const std::int32_t shift = bits > kBinBits ? bits - kBinBits : 0;
    const std::uint64_t span = bits == 0 ? 0 : ~std::uint64_t{0} >> (64 - bits);
    visit([&](std::uint64_t key) {
      if (key >= base && key - base <= span) atomicAdd(&histogram[(key - base) >> shift], 1);
    });
    __syncthreads();
    Cut cut;
    find_bin(histogram[threadIdx.x], wanted, cut);
    base += cut.key << shift;
    wanted = cut.wanted;
    bits = shift;
    if (cut.wanted == cut.count || bits == 0) return {base, cut.wanted, cut.count};
  }
}

/// Calls f(score, column, raw) for the block's columns of this thread, in ascending order.
template <class F>
__device__ __forceinline__ void visit_columns(const LogitJob& job, std::int64_t row, bool top,
                                              const F& f) {
  const DeviceLogitQuery& query = job.queries[row];
  for (std::int32_t first = static_cast<std::int32_t>(threadIdx.x) * kLaneColumns;
       first < job.width; first += kThreads * kLaneColumns) {
    const LogitColumns columns = load_columns(job, row, first);
    for (int i = 0; i < kLaneColumns; ++i) {
      if (columns.raw[i] == kAbsent) continue;
      double score = static_cast<double>(top ? columns.raw[i] : columns.penalised[i]);
      if (!top && query.noise != 0) {
        score = noisy_score(query, columns.penalised[i], job.shard_begin + first + i);
      }
      f(ordered_bits(score), first + i, columns.raw[i]);
    }
  }
}

/// One block a list: grid [lists].
__global__ void __launch_bounds__(kThreads) select_kernel(LogitJob job) {
  GPU_SHARED(std::int32_t, n_taken);
  const LogitListRef ref = job.long_lists[blockIdx.x];
  const std::int64_t row = ref.row;
  const bool top = ref.list == kTop;
  const DeviceLogitList& list = job.queries[row].lists[ref.list];
  DeviceLogitHeader& header = job.headers[row];
  if (header.first_bad_id >= 0) return;
  if (threadIdx.x == 0) n_taken = 0;
  const Cut cut = find_cut(
      [&](const auto& f) {
        visit_columns(job, row, top, [&](std::uint64_t key, std::int32_t, float) { f(key); });
      },
      list.n);
  // Of equal scores the lowest columns: the greatest of their complements.
  std::uint64_t least = 0;
  if (cut.wanted < cut.count) {
    const auto equal = [&](const auto& f) {
      visit_columns(job, row, top, [&](std::uint64_t key, std::int32_t column, float) {
        if (key == cut.key) f(static_cast<std::uint64_t>(kNoColumn - column));
      });
    };
    least = find_cut(equal, cut.wanted).key;
  }
  visit_columns(job, row, top, [&](std::uint64_t key, std::int32_t column, float raw) {
    if (key < cut.key) return;
    if (key == cut.key && static_cast<std::uint64_t>(kNoColumn - column) < least) return;
    const std::int32_t at = atomicAdd(&n_taken, 1);
    job.entries[list.entries_at + at] = {job.shard_begin + column, raw};
  });
  if (threadIdx.x == 0) header.n[ref.list] = cut.key == 0 ? cut.count : list.n;
}

}  // namespace

void launch_long_lists(cudaStream_t stream, const LogitJob& job) {
  gpu::launch({dim3(static_cast<unsigned>(job.n_long_lists)), dim3(kThreads), 0, stream},
              select_kernel, job);
}

}  // namespace shardlm::cuda
