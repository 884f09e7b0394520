// What each rank of a job will hold and send, computed from the configuration alone.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "model/config.h"
#include "parallel/context.h"
#include "parallel/partition.h"

namespace shardlm {

struct RankShare {
  Range heads, mlp_columns, vocab_rows;
  std::int64_t weight_bytes = 0;        ///< layout padding not counted
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

/// Contiguous shares of `ranks` ranks, in rank order. Matrices are of the precision's weights, the
/// biases that were cut with them of its activations; positions, LayerNorms and the biases that
/// follow an all-reduce, which every rank holds in full, are float32.
std::vector<RankShare> shard_plan(const ModelConfig& config, int ranks,
                                  const Precision& precision = {},
                                  Reduction reduction = Reduction::ordered);

/// The largest step of a job, and what it keeps.
struct JobSizes {
  std::int64_t kv_tokens = 0;   ///< tokens in the KV cache
  std::int64_t rows = 0;        ///< of the largest step
  std::int64_t logit_rows = 0;  ///< rows of a step whose logits are asked for
};

/// Bytes that a rank needs on its device, by what they are for.
struct MemoryNeed {
  std::int64_t weights = 0;    ///< rows padded to 16 bytes
  std::int64_t kv = 0;         ///< keys and values
  std::int64_t workspace = 0;  ///< estimate: activations, logits, scratch memory of libraries
  std::int64_t total() const { return weights + kv + workspace; }
};
MemoryNeed memory_need(const ModelConfig& config, const RankShare& share,
                       const Precision& precision, const JobSizes& sizes);

/// All-reduces of a step of `tokens` new tokens: embedding, and two a layer (B T D s of
/// Megatron-style tensor parallelism, s = 4 bytes; 8 of exact sums, but for the embedding's). None
/// at one rank.
std::vector<CollectiveCount> step_collectives(const ModelConfig& config, int ranks,
                                              std::int64_t tokens,
                                              Reduction reduction = Reduction::ordered);

std::int64_t total_count(const std::vector<CollectiveCount>& collectives);
std::int64_t total_bytes(const std::vector<CollectiveCount>& collectives);

}  // namespace shardlm
