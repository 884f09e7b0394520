#include "parallel/partition.h"

#include <algorithm>

namespace shardlm {

Range Partition::of(int rank) const {
  const std::int64_t blocks = (n_units_ + block_ - 1) / block_;
  const std::int64_t share = blocks / size_;
  const std::int64_t larger = blocks % size_;  // ranks that own one more
  const std::int64_t begin = rank * share + std::min<std::int64_t>(rank, larger);
  const std::int64_t end = begin + share + (rank < larger ? 1 : 0);
  return {std::min(begin * block_, n_units_), std::min(end * block_, n_units_)};
}

}  // namespace shardlm
