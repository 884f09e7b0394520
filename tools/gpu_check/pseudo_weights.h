// Weights of any model, made of nothing: for measuring times.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "model/config.h"
#include "parallel/weight_source.h"

namespace shardlm::gpu_check {

/// A few megabytes of pseudo-random numbers, mapped again and again one after another: a tensor of
/// any size costs address space alone, and reading it costs no more than copying memory. The same
/// numbers on every rank and in every run. Vectors are what they are in a fresh model: LayerNorm
/// weights 1, biases 0.
class PseudoWeights final : public WeightSource {
 public:
  /// For tensors of up to `most_elements` elements, kept as `dtype` (f32, f16 or bf16).
  PseudoWeights(DType dtype, std::int64_t most_elements);
  ~PseudoWeights() override;
  PseudoWeights(const PseudoWeights&) = delete;
  PseudoWeights& operator=(const PseudoWeights&) = delete;

  HostTensor tensor(const std::string& name, const std::vector<std::int64_t>& shape) override;
  HostMatrix linear(const std::string& name, std::int64_t in, std::int64_t out) override;

 private:
  HostTensor matrix(const std::string& name, const std::vector<std::int64_t>& shape) const;
  HostTensor vector(const std::string& name, const std::vector<std::int64_t>& shape);

  DType dtype_;
  std::size_t mapped_bytes_;
  std::byte* mapped_ = nullptr;
  std::map<std::string, std::vector<float>> vectors_;
};

}  // namespace shardlm::gpu_check
