// Inside of attention_prefill(): its two ways, and what both do.
#pragma once

#include <cuda_runtime_api.h>

#include "backend/cuda/kernels/attention.h"

namespace shardlm::cuda {

struct Prefill {
  MatrixView q;
  AttentionBatch batch;
  KvView cache;
  float scale = 0;
  bool q_vectors = false, kv_vectors = false;
  MatrixView out;
};

/// In float32 without tensor cores: all types, any head_dim up to kMaxHeadDim.
void prefill_float32(cudaStream_t stream, const Prefill& work);

/// True if prefill_tensor_core() can do it.
bool fits_tensor_core(const Prefill& work);
void prefill_tensor_core(cudaStream_t stream, const Prefill& work);

}  // namespace shardlm::cuda
