#include "tests/gpu/comm/gpu_ranks.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>
#include <stdexcept>

#include "comm/cuda/ipc_reducer.h"
#include "comm/cuda/nccl_reducer.h"
#include "comm/cuda/staged_reducer.h"

namespace shardlm::cuda {
namespace {

constexpr std::int64_t kSmallBytes = 1024;

std::vector<ReducePath> make_paths(Communicator& host, CudaBackend& backend,
                                   const IpcMemory& memory, const GpuRankOptions& options) {
  std::vector<ReducePath> paths;
  if (options.transport.starts_with("ipc")) {
    paths.push_back({std::make_unique<IpcReducer>(host.rank(), memory, backend, options.n_blocks),
                     options.transport == "ipc" ? ReducePath::kAnySize : kSmallBytes});
  }
  if (options.transport.ends_with("nccl")) {
    paths.push_back({std::make_unique<NcclReducer>(host, backend, options.deadlines)});
  }
  if (options.transport == "staged") {
    paths.push_back({std::make_unique<StagedReducer>(host, backend)});
  }
  return paths;
}

}  // namespace

ThreadIpcMemory::ThreadIpcMemory(int size, std::size_t slot_bytes) {
  memory_.bytes_each = ipc_bytes(slot_bytes);
  const std::vector<std::byte> zeros(memory_.bytes_each);
  for (int r = 0; r < size; ++r) {
    void* block = nullptr;
    if (cudaMalloc(&block, zeros.size()) != cudaSuccess ||
        cudaMemcpy(block, zeros.data(), zeros.size(), cudaMemcpyHostToDevice) != cudaSuccess) {
      throw std::runtime_error("no memory for the ranks");
    }
    blocks_.emplace_back(block, [](void* p) { cudaFree(p); });
    memory_.base.push_back(static_cast<std::byte*>(block));
  }
}

void run_gpu_ranks(int size, const GpuRankBody& body, const GpuRankOptions& options) {
  const ThreadIpcMemory memory(size, options.slot_bytes);
  run_gpu_ranks(
      size,
      [&](std::unique_ptr<Communicator> host, CudaBackend& backend) {
        std::vector<ReducePath> paths = make_paths(*host, backend, memory.memory(), options);
        return std::make_unique<DeviceCommunicator>(std::move(host), backend, std::move(paths),
                                                    options.deadlines, options.transport);
      },
      body, options);
}

void run_gpu_ranks(int size, const MakeCommunicator& make, const GpuRankBody& body,
                   const GpuRankOptions& options) {
  ThreadRankOptions hosts;
  hosts.deadlines = options.deadlines;
  run_ranks(
      size,
      [&](int rank, Communicator& host, Backend&) {
        const DType t = options.dtype;
        CudaBackend backend({.device = rank, .precision = {t, t, t}, .graphs = true});
        const auto comm = make(std::make_unique<BorrowedCommunicator>(host), backend);
        body(rank, *comm, backend);
      },
      hosts);
}

Tensor on_device(Backend& backend, std::int64_t rows, std::int64_t cols,
                 const std::vector<float>& values) {
  Tensor tensor = backend.allocate(rows, cols);
  backend.upload(values, tensor);
  return tensor;
}

std::vector<float> on_host(Backend& backend, const Tensor& tensor) {
  std::vector<float> values(static_cast<std::size_t>(tensor.elements()));
  backend.download(tensor, values);
  return values;
}

OnesCall::OnesCall(int rank, Backend& backend, std::int64_t rows, std::int64_t cols) {
  std::vector<float> values(static_cast<std::size_t>(rows * cols));
  residual_ = on_device(backend, rows, cols, values);
  std::fill(values.begin(), values.end(), static_cast<float>(rank + 1));
  addend_ = on_device(backend, rows, cols, values);
}

void OnesCall::run(Communicator& comm, Site site) {
  comm.all_reduce(site, addend_, {.residual = &residual_});
}

bool OnesCall::residual_is(Backend& backend, float value) const {
  const std::vector<float> values = on_host(backend, residual_);
  return std::all_of(values.begin(), values.end(), [value](float v) { return v == value; });
}

Step repeatable_step() {
  static constexpr std::array<std::int32_t, 1> kZero{0};
  static const std::array<SequenceRows, 1> kSequence{
      SequenceRows{.first_row = 0, .n_rows = 1, .start = 0, .blocks = kZero}};
  return {.ids = kZero,
          .positions = kZero,
          .sequences = kSequence,
          .logit_rows = kZero,
          .repeatable = true};
}

}  // namespace shardlm::cuda
