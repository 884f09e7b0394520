#include "parallel/layer_norm.h"

#include "parallel/shard.h"

namespace shardlm {

LayerNorm::LayerNorm(const Context& context, WeightSource& source, std::string name, std::int64_t n,
                     float epsilon)
    : name_(std::move(name)) {
  params_.weight = load_replicated(context.backend, source, source.tensor(name_ + ".weight", {n}));
  params_.bias = load_replicated(context.backend, source, source.tensor(name_ + ".bias", {n}));
  params_.epsilon = epsilon;
}

}  // namespace shardlm
