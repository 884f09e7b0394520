// What the machine can do at best: the measure for the kernels.
#pragma once

#include <cstdint>

#include "backend/cpu/read_bandwidth.h"  // read_all(), the limit of what reads memory

namespace shardlm {

/// Fused multiply-adds out of registers, in as many chains as hide their latency: returns the
/// floating-point operations done (2 a multiply-add); `sink` keeps the work from being removed.
std::int64_t multiply_add_loop(std::int64_t rounds, float* sink);

}  // namespace shardlm
