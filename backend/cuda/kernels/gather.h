// Rows of a table, picked by ids.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "backend/cuda/kernels/view.h"

namespace shardlm::cuda {

/// out[t] = float32 of table row ids[t] - first_id, zeros where the table has no such row.
/// table [n_rows, n] of any dtype; out [T, n] float32; ids [T] in device memory.
void embed(cudaStream_t stream, const MatrixView& table, std::int32_t first_id,
           const std::int32_t* ids, const MatrixView& out);

/// out[t] = table row ids[t], zeros where the table has no such row (padding has id -1).
/// table [n_rows, n] and out [T, n] of the same dtype; ids [T] in device memory.
void gather_rows(cudaStream_t stream, const MatrixView& table, const std::int32_t* ids,
                 const MatrixView& out);

}  // namespace shardlm::cuda
