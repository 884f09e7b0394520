// Ranks as processes of this machine, by fork: no MPI is needed. No call of CUDA may stand before
// in the calling process, since CUDA does not survive a fork.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "comm/communicator.h"
#include "tools/gpu_check/arguments.h"

namespace shardlm::gpu_check {

/// The exit code of what cannot be checked here, as test runners know it.
inline constexpr int kSkipped = 77;

struct RankOptions {
  int size = 1;
  std::string comm = "auto";  ///< as make_gpu_communicator()
  /// "shared": all ranks on GPU 0, which NCCL refuses. "own": rank r on GPU r. "pretend": all on
  /// GPU 0, and NCCL is told that each rank is a host of its own; for trying NCCL out, no more.
  std::string gpus = "shared";
  Deadlines deadlines{30, 60};
};
RankOptions rank_options(Arguments& arguments);

/// How a rank ended.
struct RankEnd {
  int code = 0;      ///< exit code, or minus the number of the signal
  std::string text;  ///< of the exception that ended it
};

/// body(rank, host communicator) in `size` processes. What it returns is the rank's exit code; an
/// Error is its code; a rank without its GPU is kSkipped. Texts of errors are printed, too.
using RankBody = std::function<int(int rank, std::unique_ptr<Communicator> host)>;
std::vector<RankEnd> fork_ranks(const RankOptions& options, const RankBody& body);

/// The code for all: 0 if all ended well, else that of the first that failed; kSkipped if one was
/// skipped and none failed.
int common_code(const std::vector<RankEnd>& ends);

/// A rank's back end on its GPU and its communicator; makes and destroys both, the communicator
/// first. Throws Skip if the ranks have no GPUs that can do it.
using DeviceBody = std::function<void(Communicator& comm, Backend& backend)>;
class HostEnd {
 public:
  HostEnd(const RankOptions& options, std::unique_ptr<Communicator> host);
  int rank() const { return host_->rank(); }
  /// May be called several times, by all ranks together.
  void with_device(const Precision& precision, bool graphs, const DeviceBody& body);

 private:
  RankOptions options_;
  std::unique_ptr<Communicator> host_;
  int device_ = 0;
  bool peer_access_ = false;
};

/// Ends a rank, or a command, with kSkipped.
struct Skip {
  std::string because;
};

}  // namespace shardlm::gpu_check
