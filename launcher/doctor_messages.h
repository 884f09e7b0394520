// What a rank tells rank 0 for `shardlm doctor`, on the wire.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "launcher/doctor_report.h"

namespace shardlm {

/// All but `gpus`, which travels by itself (launcher/gpu_messages.h).
void write(const RankFacts& facts, std::vector<std::byte>& to);
RankFacts read_rank_facts(std::span<const std::byte> from);

}  // namespace shardlm
