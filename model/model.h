// A model as one rank holds it, and the list of families.
#pragma once

#include <functional>
#include <memory>

#include "model/config.h"
#include "model/kv_cache.h"
#include "parallel/context.h"
#include "parallel/partition.h"
#include "parallel/weight_source.h"

namespace shardlm {

class Model {
 public:
  virtual ~Model() = default;
  /// This rank's heads' keys and values for n_blocks blocks of block_tokens tokens.
  virtual KvCache make_cache(std::int64_t n_blocks, std::int64_t block_tokens) const = 0;
  /// Logits [step.logit_rows, vocabulary ids of this rank] for the rows that the step asks for.
  virtual Tensor forward(const Step& step, KvCache& cache) const = 0;
  /// The ids whose logits this rank computes.
  virtual Range vocab_ids() const = 0;
  /// Bytes of this rank's matrices that a step reads once, however many tokens it has.
  virtual std::size_t step_weight_bytes() const = 0;
};

/// What make_model reports while it loads: layers done of all.
using LoadProgress = std::function<void(std::int64_t done, std::int64_t total)>;

/// Loads this rank's shard. The context outlives the model.
std::unique_ptr<Model> make_model(const ModelConfig& config, WeightSource& weights,
                                  const Context& context, const LoadProgress& progress = {});

}  // namespace shardlm
