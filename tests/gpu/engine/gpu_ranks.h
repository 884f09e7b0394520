// Ranks as threads, each with an emulated GPU of its own.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "comm/gpu.h"
#include "tests/parallel/model_ranks.h"

namespace shardlm {

/// A communicator that someone else owns.
class BorrowedCommunicator final : public Communicator {
 public:
  explicit BorrowedCommunicator(Communicator& comm) : comm_(comm) {}
  int rank() const override { return comm_.rank(); }
  int size() const override { return comm_.size(); }
  std::string describe() const override { return comm_.describe(); }
  void all_reduce(Site site, const Tensor& addend, const ResidualUpdate& update) override {
    comm_.all_reduce(site, addend, update);
  }
  void broadcast(Site site, std::vector<std::byte>& message, int root) override {
    comm_.broadcast(site, message, root);
  }
  void gather(Site site, std::span<const std::byte> mine, std::vector<std::vector<std::byte>>& all,
              int root) override {
    comm_.gather(site, mine, all, root);
  }
  void barrier(Site site) override { comm_.barrier(site); }

 private:
  Communicator& comm_;
};

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
