// One maker for each family's file.
#pragma once

#include <memory>

#include "model/model.h"

namespace shardlm {

std::unique_ptr<Model> make_gpt2(const ModelConfig& config, WeightSource& weights,
                                 const Context& context, const LoadProgress& progress);

}  // namespace shardlm
