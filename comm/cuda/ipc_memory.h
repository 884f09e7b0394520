// The memory that the ranks of a node map from each other for the ipc all-reduce.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "backend/cuda/cuda_backend.h"
#include "comm/communicator.h"

namespace shardlm::cuda {

/// The ranks' memory as this rank sees it: IpcHeader and two slots each, aligned to 128 bytes, the
/// header zero before any rank made its reducer.
struct IpcMemory {
  std::vector<std::byte*> base;  ///< of each rank
  std::size_t bytes_each = 0;
  std::shared_ptr<void> owner = {};  ///< keeps it allocated and mapped; may be empty
};

/// Bytes of a rank's memory whose slots hold `slot_bytes` each (a positive multiple of 16).
std::size_t ipc_bytes(std::size_t slot_bytes);

/// Allocates this rank's memory and maps the others', by CUDA's IPC handles, which travel through
/// the host communicator. Called by all ranks together, each a process of its own on one node. What
/// one rank cannot do is an AgreedFailure of all.
IpcMemory share_ipc_memory(Communicator& host, CudaBackend& backend, std::size_t slot_bytes);

}  // namespace shardlm::cuda
