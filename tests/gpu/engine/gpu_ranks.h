// Ranks as threads, each with an emulated GPU of its own.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "comm/borrowed_communicator.h"
#include "comm/gpu.h"
#include "tests/parallel/model_ranks.h"

namespace shardlm {

struct GpuRankOptions {
  std::string comm = "nccl";
  DType dtype = DType::f32;
  DType kv = DType::f32;
  bool graphs = true;
};

inline ModelRankOptions gpu_ranks(const GpuRankOptions& gpu) {
  ModelRankOptions options;
  options.on_device = [gpu](int rank, Communicator& host, Backend&, const auto& body) {
    const Precision precision{.weights = gpu.dtype, .activations = gpu.dtype, .kv = gpu.kv};
    const auto backend =
        make_gpu_backend({.device = rank, .precision = precision, .graphs = gpu.graphs});
    const auto comm =
        make_gpu_communicator(std::make_unique<BorrowedCommunicator>(host), *backend, gpu.comm,
                              {.one_node = true, .peer_access = true, .device = rank}, {60, 60});
    body(*comm, *backend);
  };
  return options;
}

}  // namespace shardlm
