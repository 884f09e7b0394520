// Writing new keys and values into the cache.
#pragma once

#include <cstdint>

#include "backend/cpu/kv_storage.h"

namespace shardlm {

/// Tokens of one head of one sequence that stand in one group of 16.
struct NewTokens {
  HeadCache cache;
  std::int64_t position = 0;                      ///< of the first
  std::int64_t count = 0;                         ///< position % 16 + count <= 16
  const float* keys = nullptr;                    ///< [count][head_dim]
  const float* values = nullptr;                  ///< the same
  std::int64_t key_stride = 0, value_stride = 0;  ///< floats from token to token
};

/// Rounds to nearest even. int8: to multiples of (largest magnitude of the head's key or value) /
/// 127; one that holds a NaN or an infinity becomes NaN throughout, one below 1e-36 becomes 0.
void append_tokens(const NewTokens& tokens);

}  // namespace shardlm
