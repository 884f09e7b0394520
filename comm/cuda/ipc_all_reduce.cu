#include "comm/cuda/ipc_all_reduce.h"

#include "backend/cuda/kernels/row_norm.h"

namespace shardlm::cuda {
namespace {

constexpr int kFloats = 4;  // a thread takes 16 bytes at a time
// Loads from so many ranks' memory are under way together: each takes about a microsecond.
constexpr int kRanksAtOnce = 4;
// A look at the host's memory takes about as long as this many looks at a flag.
constexpr unsigned kSpinsPerLook = 64;

struct Params {
  IpcRank rank;
  IpcLaunch launch;
  const float* addend;
  std::int64_t addend_stride, rows, cols, slot_stride;
  float* residual;
  std::int64_t residual_stride;
  const float* bias;
  RowNorm norm;  // out: of row 0
  std::int64_t normed_stride;
  bool vectors;
};

__device__ __forceinline__ IpcHeader& header(const IpcRank& ranks, int rank) {
  return *reinterpret_cast<IpcHeader*>(ranks.memory[rank]);
}

__device__ __forceinline__ float* slot(const IpcRank& ranks, int rank, std::uint32_t epoch) {
  const std::int64_t parity = epoch % 2;
  return reinterpret_cast<float*>(ranks.memory[rank] + kIpcSlots + parity * ranks.slot_bytes);
}

__device__ bool any_block_entered(const Params& p, int peer, std::uint32_t epoch) {
  const auto& flags = header(p.rank, p.rank.rank).entered[epoch % 2][peer];
  for (unsigned block = 0; block < gridDim.x; ++block) {
    if (static_cast<std::uint32_t>(gpu::ld_acquire_sys(&flags[block])) == epoch) return true;
  }
  return false;
}

// Puts into the report what this thread, which waits for `peer`, knows.
__device__ void report(const Params& p, std::uint32_t number, int peer, unsigned long long seen,
                       std::uint32_t epoch) {
  IpcReport& to = *p.rank.report;
  if (static_cast<std::uint32_t>(seen) == epoch) {
    gpu::st_release_sys(&to.label_of[peer], static_cast<std::uint32_t>(seen >> 32));
    gpu::st_release_sys(&to.label, p.launch.label);
    gpu::st_release_sys(&to.number, number);
    gpu::st_release_sys(&to.out_of_step[peer], 1U);
  } else if (gpu::ld_acquire_sys(&to.abort) != 0) {
    gpu::st_release_sys(&to.missing[peer], any_block_entered(p, peer, epoch) ? 2U : 1U);
    gpu::st_release_sys(&to.label, p.launch.label);
    gpu::st_release_sys(&to.number, number);
  }
}

// Until block blockIdx.x of `peer` has entered this epoch too. False: the host has given up.
__device__ bool wait_for(const Params& p, std::uint32_t number, int peer, std::uint32_t epoch) {
  IpcHeader& own = header(p.rank, p.rank.rank);
  const unsigned long long* flag = &own.entered[epoch % 2][peer][blockIdx.x];
  const unsigned long long wanted = static_cast<unsigned long long>(p.launch.label) << 32 | epoch;
  for (unsigned spins = 1;; ++spins) {
    const unsigned long long seen = gpu::ld_acquire_sys(flag);
    if (seen == wanted) return true;
    if (spins % kSpinsPerLook == 0) {
      report(p, number, peer, seen, epoch);
      if (gpu::ld_acquire_sys(&p.rank.report->abort) != 0) {
        gpu::st_release_sys(&own.broken, epoch);
        return false;
      }
    }
    gpu::spin_pause();
  }
}

__device__ __forceinline__ void fill_slot(const Params& p, std::uint32_t epoch) {
  float* const to = slot(p.rank, p.rank.rank, epoch);
  for (std::int64_t row = blockIdx.x; row < p.rows; row += gridDim.x) {
    for (std::int64_t i = std::int64_t{threadIdx.x} * kFloats; i < p.cols;
         i += std::int64_t{blockDim.x} * kFloats) {
      float values[kFloats];
      load_chunk(p.addend + row * p.addend_stride + i, p.cols - i, p.vectors, values);
      store_chunk(values, p.cols - i, p.vectors, to + row * p.slot_stride + i);
    }
  }
}

__device__ __forceinline__ void add_to(float (&sum)[kFloats], const float (&add)[kFloats],
                                       bool is_first) {
#pragma unroll
  for (int e = 0; e < kFloats; ++e) sum[e] = is_first ? add[e] : sum[e] + add[e];
}

__device__ __forceinline__ void update_rows(const Params& p, std::uint32_t epoch) {
  for (std::int64_t row = blockIdx.x; row < p.rows; row += gridDim.x) {
    const auto sum_addends = [&](std::int64_t i, float(&sum)[kFloats]) {
      for (int first = 0; first < p.rank.size; first += kRanksAtOnce) {
        float add[kRanksAtOnce][kFloats];
#pragma unroll
        for (int k = 0; k < kRanksAtOnce; ++k) {
          if (first + k < p.rank.size) {
            load_chunk(slot(p.rank, first + k, epoch) + row * p.slot_stride + i, p.cols - i,
                       p.vectors, add[k]);
          }
        }
#pragma unroll
        for (int k = 0; k < kRanksAtOnce; ++k) {
          if (first + k < p.rank.size) add_to(sum, add[k], first + k == 0);
        }
      }
    };
    RowNorm norm = p.norm;
    if (norm.out != nullptr) {
      const std::int64_t width = norm.out_dtype == DType::f32 ? 4 : 2;
      norm.out = static_cast<unsigned char*>(norm.out) + row * p.normed_stride * width;
    }
    update_row<kFloats>(p.residual + row * p.residual_stride, p.bias, p.cols, norm, p.vectors,
                        sum_addends);
  }
}

__device__ __forceinline__ void add_record(const Params& p, std::uint32_t number,
                                           std::uint64_t entered_ns, std::uint64_t all_entered_ns) {
  IpcHeader::Records& records = header(p.rank, p.rank.rank).records;
  records.ring[records.count % kIpcRecords] = {
      entered_ns,          all_entered_ns,
      gpu::global_timer(), static_cast<std::uint64_t>(p.rows * p.cols) * sizeof(float),
      p.launch.label,      number};
  ++records.count;
}

__global__ void __launch_bounds__(kRowThreads)
    ipc_all_reduce_kernel(const __grid_constant__ Params p) {
  IpcHeader& own = header(p.rank, p.rank.rank);
  IpcHeader::Block& mine = own.blocks[blockIdx.x];
  const std::uint32_t epoch = mine.epoch + 1, number = mine.calls + 1;
  // A block of this very launch may be giving up just now: that holds for the next launch only, or
  // the threads of a block would part.
  const std::uint32_t broken = gpu::ld_acquire_sys(&own.broken);
  if (broken != 0 && broken != epoch) return;
  const bool timed = p.launch.timed && blockIdx.x == 0 && threadIdx.x == 0;
  std::uint64_t entered_ns = 0, all_entered_ns = 0;
  if (timed) entered_ns = gpu::global_timer();

  fill_slot(p, epoch);
  __syncthreads();
  const int peer = static_cast<int>(threadIdx.x);
  bool given_up = false;
  if (peer < p.rank.size && peer != p.rank.rank && blockIdx.x < p.rows) {
    gpu::st_release_sys(&header(p.rank, peer).entered[epoch % 2][p.rank.rank][blockIdx.x],
                        static_cast<unsigned long long>(p.launch.label) << 32 | epoch);
    given_up = !wait_for(p, number, peer, epoch);
  }
  const bool block_gives_up = __syncthreads_or(given_up) != 0;
  if (threadIdx.x == 0) mine = {epoch, p.launch.last ? number : number - 1};
  if (block_gives_up) return;
  if (timed) all_entered_ns = gpu::global_timer();
  update_rows(p, epoch);
  if (timed) add_record(p, number, entered_ns, all_entered_ns);
}

__global__ void read_gpu_clock_kernel(std::uint64_t* to) { *to = gpu::global_timer(); }

bool aligned(const void* vector) { return reinterpret_cast<std::uintptr_t>(vector) % 16 == 0; }

}  // namespace

void ipc_all_reduce(cudaStream_t stream, const IpcRank& rank, const IpcLaunch& launch,
                    const MatrixView& addend, const ResidualRows& update) {
  const MatrixView& x = update.residual;
  check(addend.dtype == DType::f32 && x.dtype == DType::f32, "ipc_all_reduce: rows are float32");
  const std::int64_t slot_stride = ipc_slot_stride(addend.cols);
  check(addend.rows > 0 && addend.cols > 0 &&
            addend.rows * slot_stride * std::int64_t{sizeof(float)} <= rank.slot_bytes,
        "ipc_all_reduce: the addend fits a slot");
  Params p{rank,
           launch,
           static_cast<const float*>(addend.data),
           addend.stride,
           addend.rows,
           addend.cols,
           slot_stride,
           static_cast<float*>(x.data),
           x.stride,
           update.bias,
           {},
           0,
           all_allow_vectors(addend, x) && aligned(update.bias)};
  if (update.norm != nullptr) {
    const NormParams& norm = *update.norm;
    with_element(update.normed.dtype, [](auto) {});  // refuses what the kernel cannot store
    p.norm = {norm.weight, norm.bias, norm.epsilon, update.normed.data, update.normed.dtype};
    p.normed_stride = update.normed.stride;
    p.vectors &= allows_vectors(update.normed) && aligned(norm.weight) && aligned(norm.bias);
  }
  gpu::launch({dim3(static_cast<unsigned>(rank.n_blocks)), dim3(row_threads(addend.cols, kFloats)),
               0, stream},
              ipc_all_reduce_kernel, p);
}

void read_gpu_clock(cudaStream_t stream, std::uint64_t* to) {
  gpu::launch({dim3(1), dim3(1), 0, stream}, read_gpu_clock_kernel, to);
}

}  // namespace shardlm::cuda
