// What ranks tell each other about their GPUs, on the wire.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "launcher/gpus.h"

namespace shardlm {

void write(const RankGpus& rank, std::vector<std::byte>& to);
RankGpus read_rank_gpus(std::span<const std::byte> from);

void write(const BackendDecision& decision, std::vector<std::byte>& to);
BackendDecision read_decision(std::span<const std::byte> from);

}  // namespace shardlm
