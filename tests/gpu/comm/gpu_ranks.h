// Ranks with an emulated GPU each, as threads of one process: tests/support/thread_ranks.h for the
// hosts, and any of the transports between the devices.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "comm/borrowed_communicator.h"
#include "comm/cuda/device_communicator.h"
#include "comm/cuda/ipc_memory.h"
#include "tests/support/thread_ranks.h"

namespace shardlm::cuda {

/// A time limit of tests in which a rank does not come: sanitizers make good calls slow too.
#if defined(SHARDLM_EMU_TSAN) || defined(SHARDLM_EMU_ASAN)
inline constexpr double kSoon_s = 3;
#else
inline constexpr double kSoon_s = 0.5;
#endif

struct GpuRankOptions {
  std::string transport = "ipc";  ///< ipc, nccl, staged, ipc+nccl (ipc up to 1 KiB)
  std::size_t slot_bytes = std::size_t{16} << 10;
  int n_blocks = 4;
  Deadlines deadlines{60, 60};
  DType dtype = DType::f32;
};

/// Memory for ranks that are threads: mapped by all, since they are one process.
class ThreadIpcMemory {
 public:
  ThreadIpcMemory(int size, std::size_t slot_bytes);
  const IpcMemory& memory() const { return memory_; }

 private:
  std::vector<std::shared_ptr<void>> blocks_;
  IpcMemory memory_;
};

/// Runs body(rank, communicator, back end) on `size` threads; see run_ranks() for exceptions.
using GpuRankBody = std::function<void(int, DeviceCommunicator&, CudaBackend&)>;
void run_gpu_ranks(int size, const GpuRankBody& body, const GpuRankOptions& options = {});

/// The same with a part for the host alone in front, and the communicator made by `make`.
using MakeCommunicator =
    std::function<std::unique_ptr<DeviceCommunicator>(std::unique_ptr<Communicator>, CudaBackend&)>;
void run_gpu_ranks(int size, const MakeCommunicator& make, const GpuRankBody& body,
                   const GpuRankOptions& options);

/// A matrix on the device, of these values.
Tensor on_device(Backend& backend, std::int64_t rows, std::int64_t cols,
                 const std::vector<float>& values);
std::vector<float> on_host(Backend& backend, const Tensor& tensor);

/// residual += the sum over ranks of [rows, cols] times (rank + 1), without bias or norm; all
/// tensors live as long as this does.
class OnesCall {
 public:
  OnesCall(int rank, Backend& backend, std::int64_t rows, std::int64_t cols);
  void run(Communicator& comm, Site site);
  /// True if every element of the residual is this.
  bool residual_is(Backend& backend, float value) const;
  const Tensor& residual() const { return residual_; }

 private:
  Tensor addend_, residual_;
};

/// One decode step of one sequence, for Backend::run_pass(): the first one runs eagerly, the second
/// records, later ones replay.
Step repeatable_step();

}  // namespace shardlm::cuda
