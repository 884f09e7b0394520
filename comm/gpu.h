// What a job needs of GPUs: are there any, a back end on one, a communicator between them. Two
// implementations, chosen by the linker: comm/cuda/ where the CUDA back end is built, else
// comm/no_gpu/.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "comm/communicator.h"

namespace shardlm {

/// One GPU as this process sees it.
struct GpuDevice {
  int index = 0;       ///< CUDA's number in this process
  std::string name;    ///< "NVIDIA H200"
  std::string bus_id;  ///< "0000:1b:00.0"
  std::string uuid;    ///< hexadecimal
  int compute_major = 0, compute_minor = 0;
  int n_sm = 0;
  /// Free memory is not asked for (0), since that takes a context, some 300 MB of it: a back end on
  /// the device tells it (Backend::memory).
  std::uint64_t free_bytes = 0, total_bytes = 0;
  double memory_gb_s = 0;                ///< of the memory bus, as clock and width say; 0: unknown
  std::vector<int> peers = {};           ///< devices whose memory it can map
};

/// What this process finds.
struct GpuSurvey {
  bool built_in = false;       ///< this program has a CUDA back end
  std::string none_because;    ///< why `devices` is empty: "no CUDA device is present"
  std::string versions;        ///< "driver 13.0, runtime 13.0, cuBLASLt 13.1, NCCL 2.28.9"
  std::vector<GpuDevice> devices;
};

/// Never throws: what cannot be asked is left out, with the reason in `none_because`.
GpuSurvey survey_gpus();

struct GpuOptions {
  int device = 0;
  Precision precision = {};
  bool graphs = true;
};
std::unique_ptr<Backend> make_gpu_backend(const GpuOptions& options);

/// Where the ranks' GPUs are, as agreed by all ranks.
struct GpuPlacement {
  bool one_node = true;
  bool peer_access = false;  ///< each rank can map each other's memory (or they share a GPU)
  bool shared_gpu = false;   ///< some ranks share a GPU
  int device = 0;            ///< this rank's
};

/// All-reduce on the device, everything else through `host`. `name`: auto, nccl, ipc or staged.
/// Called by all ranks together; a name that cannot work here is Error(ExitCode::usage) with the
/// reason. The back end is one of make_gpu_backend() and outlives the result.
std::unique_ptr<Communicator> make_gpu_communicator(std::unique_ptr<Communicator> host,
                                                    Backend& backend, const std::string& name,
                                                    const GpuPlacement& placement,
                                                    const Deadlines& deadlines);

}  // namespace shardlm
