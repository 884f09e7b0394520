// The arithmetic of the NCCL double.
#pragma once

#include <cstddef>
#include <vector>

#include <nccl.h>

namespace shardlm::doubles {

/// Bytes of an element; 0 for a type that the double does not know.
std::size_t element_bytes(ncclDataType_t type);
/// Whether the double has this reduction: sum, max, min.
bool known(ncclRedOp_t reduction);

/// out[i] = the reduction of part[i] over all parts, in their order; halves are added in float32.
void reduce(void* out, const std::vector<const void*>& parts, std::size_t elements,
            ncclDataType_t type, ncclRedOp_t reduction);

}  // namespace shardlm::doubles
