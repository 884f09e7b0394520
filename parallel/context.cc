#include "parallel/context.h"

#include <numeric>

#include "base/error.h"

namespace shardlm {

std::int64_t head_block(const Precision& precision, Reduction reduction, std::int64_t head_dim) {
  if (reduction == Reduction::ordered) return 1;
  const std::int64_t granule = fixed_granule(precision.weights);
  return granule / std::gcd(granule, head_dim);
}

std::int64_t sum_block(const Precision& precision, std::int64_t unit) {
  const std::int64_t granule = fixed_granule(precision.weights);
  check(unit > 0 && unit % granule == 0, "sum_block: units of whole blocks");
  std::int64_t block = kFixedBlock / granule * granule;
  while (unit % block != 0) block -= granule;
  return block;
}

}  // namespace shardlm
