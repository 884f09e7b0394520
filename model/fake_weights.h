// Weights of any shape that are not those of a model: for measuring.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "io/repeated_memory.h"
#include "model/config.h"
#include "parallel/weight_source.h"

namespace shardlm {

/// Random weights like those of a fresh GPT-2: normal with a standard deviation of 0.02, in
/// bfloat16; the weights of LayerNorms are 1. A tensor is the same on every rank and in every run.
/// All tensors are views of one pattern of 4 MiB, each from a place of its own, so that a rank
/// holds little beside its shard.
class FakeWeights final : public WeightSource {
 public:
  explicit FakeWeights(const ModelConfig& config);

  HostTensor tensor(const std::string& name, const std::vector<std::int64_t>& shape) override;
  HostMatrix linear(const std::string& name, std::int64_t in, std::int64_t out) override;

 private:
  std::size_t pattern_bytes_;
  RepeatedMemory memory_;
  std::vector<std::uint16_t> ones_;  // [n_embd], bfloat16
};

}  // namespace shardlm
