// The memory of a CPU tensor.
#pragma once

#include <cstddef>
#include <memory>

#include "backend/tensor.h"

namespace shardlm {

/// 64-byte aligned: small buffers from the allocator, large ones from the system, with huge pages.
std::shared_ptr<Buffer> make_host_buffer(std::size_t bytes);

}  // namespace shardlm
