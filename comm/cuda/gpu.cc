// comm/gpu.h where the CUDA back end is built.
#include "comm/gpu.h"

#include <fmt/format.h>

#include <utility>

#include "backend/cuda/cuda_backend.h"
#include "base/error.h"
#include "comm/cuda/device_communicator.h"
#include "comm/cuda/ipc_memory.h"
#include "comm/cuda/ipc_reducer.h"
#include "comm/cuda/nccl_reducer.h"
#include "comm/cuda/staged_reducer.h"
#include "comm/self_communicator.h"

namespace shardlm {
namespace {

using cuda::CudaBackend;
using cuda::ReducePath;

// Up to here a sum is a matter of latency, where one kernel is quicker than NCCL's several steps;
// above it every rank reading all the others' bytes costs more than NCCL's ring. To be measured on
// a machine with several GPUs.
constexpr std::int64_t kIpcUpToBytes = std::int64_t{256} << 10;

// Why a transport cannot work here; empty: it can.
std::string why_no_ipc(int size, const GpuPlacement& placement) {
  if (size > cuda::kIpcMaxRanks) {
    return fmt::format("{} ranks, and ipc takes {}", size, cuda::kIpcMaxRanks);
  }
  if (!placement.one_node) return "ranks on several nodes";
  if (!placement.peer_access) return "GPUs that cannot map each other's memory";
  return {};
}

std::string why_no_nccl(const GpuPlacement& placement) {
  return placement.shared_gpu ? "ranks that share a GPU" : "";
}

void refuse(const std::string& name, const std::string& found, const char* expected,
            const char* remedy) {
  if (found.empty()) return;
  fail(ExitCode::usage,
       {.what = "communicator " + name, .expected = expected, .found = found, .remedy = remedy});
}

// Makes the paths, and the words that describe them.
class Maker {
 public:
  Maker(std::unique_ptr<Communicator> host, CudaBackend& backend, const GpuPlacement& placement,
        const Deadlines& deadlines)
      : host_(std::move(host)),
        backend_(backend),
        placement_(placement),
        deadlines_(deadlines),
        no_ipc_(why_no_ipc(host_->size(), placement)),
        no_nccl_(why_no_nccl(placement)) {}

  std::unique_ptr<Communicator> make(const std::string& name) {
    if (name == "ipc") return make_ipc();
    if (name == "nccl") return make_nccl();
    if (name == "staged") return make_staged("");
    if (name != "auto") {
      fail(ExitCode::usage, {.what = "communicator of GPUs",
                             .expected = "auto, nccl, ipc or staged",
                             .found = "'" + name + "'"});
    }
    if (host_->size() == 1) return std::make_unique<SelfCommunicator>(backend_);
    if (no_ipc_.empty() && no_nccl_.empty()) return make_ipc_and_nccl();
    if (no_ipc_.empty()) return make_ipc();
    if (no_nccl_.empty()) return make_nccl();
    return make_staged(fmt::format(" ({}; {})", no_nccl_, no_ipc_));
  }

 private:
  std::unique_ptr<Communicator> make_ipc() {
    refuse("ipc", no_ipc_, "up to 16 ranks on one node with peer access", "use nccl or staged");
    add_ipc(ReducePath::kAnySize);
    return finish(placement_.shared_gpu ? "ipc, for ranks share a GPU" : "ipc");
  }
  std::unique_ptr<Communicator> make_nccl() {
    refuse("nccl", no_nccl_, "a GPU for each rank", "use ipc or staged, or fewer ranks");
    add_nccl();
    return finish(paths_.back().reducer->name());
  }
  std::unique_ptr<Communicator> make_ipc_and_nccl() {
    add_ipc(kIpcUpToBytes);
    add_nccl();
    return finish(fmt::format("ipc up to {} KiB, else {}", kIpcUpToBytes >> 10,
                              paths_.back().reducer->name()));
  }
  std::unique_ptr<Communicator> make_staged(const std::string& because) {
    paths_.push_back({std::make_unique<cuda::StagedReducer>(*host_, backend_)});
    return finish(fmt::format("staged through the hosts ({}){}", host_->describe(), because));
  }

  void add_ipc(std::int64_t up_to_bytes) {
    paths_.push_back(
        {std::make_unique<cuda::IpcReducer>(
             host_->rank(), share_ipc_memory(*host_, backend_, cuda::IpcReducer::kSlotBytes),
             backend_),
         up_to_bytes});
  }
  void add_nccl() {
    paths_.push_back({std::make_unique<cuda::NcclReducer>(*host_, backend_, deadlines_)});
  }

  std::unique_ptr<Communicator> finish(const std::string& text) {
    const int size = host_->size();
    return std::make_unique<cuda::DeviceCommunicator>(
        std::move(host_), backend_, std::move(paths_), deadlines_,
        fmt::format("{}, {} rank{}", text, size, size == 1 ? "" : "s"));
  }

  std::unique_ptr<Communicator> host_;
  CudaBackend& backend_;
  GpuPlacement placement_;
  Deadlines deadlines_;
  std::string no_ipc_, no_nccl_;
  std::vector<ReducePath> paths_;
};

}  // namespace

std::unique_ptr<Backend> make_gpu_backend(const GpuOptions& options) {
  return std::make_unique<CudaBackend>(cuda::CudaOptions{
      .device = options.device, .precision = options.precision, .graphs = options.graphs});
}

std::unique_ptr<Communicator> make_gpu_communicator(std::unique_ptr<Communicator> host,
                                                    Backend& backend, const std::string& name,
                                                    const GpuPlacement& placement,
                                                    const Deadlines& deadlines) {
  auto* device = dynamic_cast<CudaBackend*>(&backend);
  check(device != nullptr, "a communicator of GPUs needs the CUDA back end");
  return Maker(std::move(host), *device, placement, deadlines).make(name);
}

}  // namespace shardlm
