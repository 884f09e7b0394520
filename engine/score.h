// How well a model predicts a text.
#pragma once

#include <cstdint>
#include <span>

#include "engine/coordinator.h"

namespace shardlm {

struct ScoreSetup {
  std::int64_t window = 0;  ///< input tokens of a window, at most the context
  std::int64_t stride = 0;  ///< input tokens from one window's start to the next; <= window
  std::int64_t rows_per_step = 512;
  std::int64_t block_tokens = 32;
};

struct Score {
  std::int64_t tokens = 0;  ///< predicted
  double nats = 0;          ///< sum of -log p
};

/// Windows of a text of n ids (n - 1 predictions): window w reads ids [w stride, w stride + window)
/// and predicts the id after each of them; those that an earlier window has predicted do not count.
/// So every id but the first is predicted exactly once.
struct ScoreWindow {
  std::int64_t begin = 0, end = 0;  ///< input ids
  std::int64_t first = 0;           ///< first input id whose prediction counts
};
std::vector<ScoreWindow> score_windows(std::int64_t n_ids, const ScoreSetup& setup);

/// KV blocks that score() uses at most.
std::int64_t score_blocks(const ScoreSetup& setup);

/// An Error(bug) names the position of a logit that is not finite.
Score score(Coordinator& coordinator, std::span<const std::int32_t> ids, const ScoreSetup& setup);

}  // namespace shardlm
