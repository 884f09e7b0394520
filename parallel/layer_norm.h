// LayerNorm: every rank holds it and applies it to the whole residual stream.
#pragma once

#include <string>

#include "backend/backend.h"
#include "parallel/context.h"
#include "parallel/weight_source.h"

namespace shardlm {

class LayerNorm {
 public:
  LayerNorm(const Context& context, WeightSource& source, std::string name, std::int64_t n,
            float epsilon);
  const LayerNormParams& params() const { return params_; }
  const std::string& name() const { return name_; }

 private:
  std::string name_;
  LayerNormParams params_;
};

}  // namespace shardlm
