// The one order in which candidates are ranked, in shards and where shards are merged.
#pragma once

#include "backend/backend.h"

namespace shardlm {

/// Higher score first; equal scores by the lower id. A total order: the same at every rank count.
inline bool ranks_before(const Candidate& a, const Candidate& b) {
  return a.score > b.score || (a.score == b.score && a.id < b.id);
}

}  // namespace shardlm
