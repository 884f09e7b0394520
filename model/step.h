// One forward pass: new tokens of any number of sequences, one after another, no padding.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backend/backend.h"

namespace shardlm {

struct Step {
  std::vector<std::int32_t> ids;         ///< [T] token ids
  std::vector<std::int32_t> positions;   ///< [T] position of each in its sequence
  std::vector<SequenceRows> sequences;   ///< which rows belong to which sequence
  std::vector<std::int32_t> logit_rows;  ///< rows whose logits are wanted, ascending
};

}  // namespace shardlm
