// The sum of addends that stand in host memory.
#pragma once

#include <span>

#include "backend/tensor.h"

namespace shardlm {

/// to = the addends' sum, in their order: float32, or i64 as integers. All contiguous, of one
/// shape.
void add_up(std::span<const Tensor> addends, const Tensor& to);

}  // namespace shardlm
