// The step from float32 to fixed point in a product's kernels (backend/fixed_point.h).
#pragma once

#include <cstdint>
#include <optional>

#include "backend/fixed_point.h"

namespace shardlm {

/// Where a kernel adds each block's sums, instead of writing floats.
struct FixedSums {
  std::int64_t block = kFixedBlock;  ///< inputs
  std::int64_t* out = nullptr;       ///< of the product's first row and column
  std::int64_t stride = 0;
  std::int64_t columns = 0;                ///< that count; those behind are padding of the panel
  std::optional<FixedMisfit> misfit = {};  ///< the first one met; row and column of the product
};

/// sums.out[row + r] (=, or += but for the first block) the fixed point of from[r]: `rows` rows,
/// `stride` floats apart.
void add_fixed_rows(const float* from, std::int64_t stride, std::int64_t row, std::int64_t rows,
                    bool first, FixedSums& sums);

}  // namespace shardlm
