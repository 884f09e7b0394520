// What each rank of a job will hold and send, computed from the configuration alone.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/config.h"
#include "parallel/partition.h"

namespace shardlm {

struct RankShare {
  Range heads, mlp_columns, vocab_rows;
  std::int64_t weight_bytes = 0;        ///< float32 elements, layout padding not counted
  std::int64_t kv_bytes_per_token = 0;  ///< keys and values of the local heads, all layers
};

/// The collectives of one step at one kind of site. `bytes_each` is one rank's contribution:
/// the payload of an all-reduce, the message of a broadcast, one reply of a gather.
struct CollectiveCount {
  std::string site;  ///< "embed", "attn_out", "mlp_out", "step", "candidates"
  std::string kind;  ///< "all_reduce", "broadcast", "gather"
  std::int64_t count = 0;
  std::int64_t bytes_each = 0;
};

/// Contiguous shares of `ranks` ranks, in rank order.
std::vector<RankShare> shard_plan(const ModelConfig& config, int ranks);

/// All-reduces of a step of `tokens` new tokens: embedding, and two a layer (B T D s of
/// Megatron-style tensor parallelism, s = 4 bytes). None at one rank.
std::vector<CollectiveCount> step_collectives(const ModelConfig& config, int ranks,
                                              std::int64_t tokens);

std::int64_t total_count(const std::vector<CollectiveCount>& collectives);
std::int64_t total_bytes(const std::vector<CollectiveCount>& collectives);

}  // namespace shardlm
