// Which rank takes which GPU.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "launcher/gpus.h"

namespace shardlm {

struct GpuAssignment {
  std::vector<int> devices;  ///< of each rank: index into its survey
  std::vector<int> gpus;     ///< of each rank: number of the physical GPU, counted from 0
  bool shared = false;
};

/// Every rank must see a GPU. Rank k of a node prefers its k-th GPU and takes the next one that no
/// lower rank has; if there is none, its (k modulo n)-th, which is then shared.
GpuAssignment assign_gpus(std::span<const RankGpus> all);

/// BackendRefusal(resources) that says on which host there are fewer GPUs than ranks, or that ranks
/// see the same ones. Only for assignments that share.
[[noreturn]] void refuse_sharing(std::span<const RankGpus> all, const GpuAssignment& assignment);

}  // namespace shardlm
