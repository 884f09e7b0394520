// The version of how bench and bench coll measure: results of different ones are never compared.
#pragma once

namespace shardlm {

inline constexpr int kMethodVersion = 2;

}  // namespace shardlm
