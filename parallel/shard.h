// Cutting a rank's shard out of a full tensor while it is read.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "parallel/partition.h"
#include "parallel/weight_source.h"

namespace shardlm {

std::int64_t total_size(std::span<const Range> ranges);

/// Output columns of a matrix, several ranges side by side (q, k and v of the local heads).
std::unique_ptr<WeightMatrix> load_columns(Backend& backend, WeightSource& source,
                                           const HostMatrix& matrix,
                                           const std::vector<Range>& columns);
/// Input rows of a matrix.
std::unique_ptr<WeightMatrix> load_rows(Backend& backend, WeightSource& source,
                                        const HostMatrix& matrix, Range rows);
/// Elements of a vector, several ranges one after another: [1, total], in the type of activations
/// (a bias that a matmul adds).
Tensor load_vector(Backend& backend, WeightSource& source, const HostTensor& vector,
                   std::span<const Range> ranges);
/// A whole matrix or vector as every rank holds it: [rows, cols].
Tensor load_replicated(Backend& backend, WeightSource& source, const HostTensor& tensor);

}  // namespace shardlm
