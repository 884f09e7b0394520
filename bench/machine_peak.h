// What the machine can do at best: the measure for the kernels.
#pragma once

#include <cstdint>

namespace shardlm {

/// Reads n floats once (n a multiple of 1024) and returns their sum.
float read_all(const float* data, std::int64_t n);

/// Fused multiply-adds out of registers, in as many chains as hide their latency: returns the
/// floating-point operations done (2 a multiply-add); `sink` keeps the work from being removed.
std::int64_t multiply_add_loop(std::int64_t rounds, float* sink);

}  // namespace shardlm
