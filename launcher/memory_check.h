// Does a rank's shard fit its GPU? Asked before anything of it is allocated.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "model/plan.h"

namespace shardlm {

/// A job as a GPU sees it.
struct MemoryQuestion {
  const ModelConfig& config;
  int ranks = 1;             ///< of the job
  std::vector<int> sharers;  ///< the ranks on this GPU
  Precision precision;
  JobSizes sizes;
};

/// What all ranks of this GPU need together.
MemoryNeed need_on_gpu(const MemoryQuestion& question);

/// "12.3 GiB (weights 11.0 GiB, keys and values 1.0 GiB, workspace 0.3 GiB)"
std::string need_text(const MemoryNeed& need);

/// Ranks with so much memory each that would do, more than question.ranks; 0: none up to 1024.
int ranks_that_fit(const MemoryQuestion& question, std::uint64_t free_bytes);

/// What to do about a need that exceeds the free bytes.
std::string memory_remedy(const MemoryQuestion& question, std::uint64_t free_bytes);

/// Error(resources) with what is needed, free and to be done. `device`: "GPU 0 (NVIDIA H200)".
void check_memory(const MemoryQuestion& question, const DeviceMemory& memory,
                  const std::string& device);

}  // namespace shardlm
