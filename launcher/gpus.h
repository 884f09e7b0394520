// Which back end a job takes, and which GPU each of its ranks: a pure function of what the ranks
// find, and the messages around it. No CUDA here: see comm/gpu.h.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "comm/gpu.h"
#include "launcher/backend_options.h"
#include "launcher/options.h"

namespace shardlm {

/// A rank, where it runs and which GPUs it sees.
struct RankGpus {
  std::string host;
  int node_rank = 0;  ///< among the ranks that share memory with it
  GpuSurvey survey;   ///< empty if nobody asked (--backend cpu)
};

/// What all ranks do.
struct BackendDecision {
  BackendKind kind = BackendKind::cpu;
  std::string because;       ///< why the CPU was taken where CUDA might have been; else empty
  std::string summary;       ///< "4 GPUs on 1 host (NVIDIA H200)"; empty for the CPU
  std::vector<int> devices;  ///< of each rank, CUDA's number in its process; empty for the CPU
  std::vector<int> gpus;     ///< of each rank, a number of the physical GPU: equal if shared
  bool one_node = true, peer_access = false, shared_gpu = false;  ///< as in GpuPlacement

  GpuPlacement placement(int rank) const;
  std::vector<int> sharers(int rank) const;  ///< ranks on the rank's GPU, itself included
};

/// Chooses for all ranks (all[r] is rank r) from --backend, --comm and --allow-shared-gpu. The rank
/// k of a node takes its k-th GPU, or, where that is not its own alone, the next one that is: a
/// launcher may have shown each rank another GPU. BackendRefusal(resources) if CUDA was asked for
/// and a rank has no GPU, if two ranks would share one, and if drivers or libraries differ between
/// ranks; BackendRefusal(usage) for options that do not fit what was chosen.
BackendDecision decide_backend(const EngineOptions& options, std::span<const RankGpus> all);

/// The line that says what was taken and why: "backend: cuda, 4 GPUs on 1 host (NVIDIA H200);
/// all-reduce: …", "backend: cpu (rank 1 on nodeB: no CUDA device is present)". `all_reduce`: how
/// the communicator describes itself.
std::string decision_line(const BackendDecision& decision, const std::string& all_reduce);

/// "2 ranks share a GPU (0, 1): …", to stand over every result of such a job; else empty.
std::string shared_gpu_line(const BackendDecision& decision);

/// True for the same piece of hardware: equal uuids, or equal bus ids on one host.
bool same_gpu(const std::string& host_a, const GpuDevice& a, const std::string& host_b,
              const GpuDevice& b);
/// True if the rank that has device `a` can map memory of b's device `b` (both index into the
/// surveys); one that cannot see the other device cannot say.
bool can_map(const RankGpus& rank_a, std::size_t a, const RankGpus& rank_b, std::size_t b);

}  // namespace shardlm
