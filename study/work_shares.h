// The work of a pass and how much of it the busiest rank has.
#pragma once

#include <cstdint>
#include <optional>

#include "model/config.h"
#include "model/plan.h"
#include "study/calibration.h"

namespace shardlm {

/// Operations of all ranks together (two for each multiply-add), of a step or a whole prefill.
struct PassWork {
  double attention = 0;  ///< c_attn, scores, values, c_proj
  double mlp = 0;
  double head = 0;
  double total() const { return attention + mlp + head; }
};
/// `keys`: tokens that a row attends to, on average; `logit_rows`: rows that are sampled from.
PassWork pass_work(const ModelConfig& config, double rows, double keys, double logit_rows);

/// The largest shares of P ranks, from the sharding plan, and its bytes.
struct LargestShares {
  double attention = 1, mlp = 1, head = 1;
  std::int64_t weight_bytes = 0, kv_bytes_per_token = 0;
};
LargestShares largest_shares(const ModelConfig& config, int ranks, const Precision& precision);

/// Seconds a GFLOP of a rank whose weights are so large, `neighbours` ranks computing on its
/// machine. Between measured rows and sizes linear in their logarithms. None: the calibration did
/// not measure it.
std::optional<double> slowness(const ComputeFacts& facts, double rows, double bytes,
                               int neighbours);

}  // namespace shardlm
