#include "parallel/partition.h"

#include <algorithm>

namespace shardlm {

Range Partition::of(int rank) const {
  const std::int64_t share = n_units_ / size_;
  const std::int64_t larger = n_units_ % size_;  // ranks that own one more
  const std::int64_t begin = rank * share + std::min<std::int64_t>(rank, larger);
  return {begin, begin + share + (rank < larger ? 1 : 0)};
}

}  // namespace shardlm
