// The golden cases of tests/data/golden/gpu_check.pack, written by tools/pack_golden.py, which
// describes the file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "model/config.h"
#include "parallel/weight_source.h"

namespace shardlm::gpu_check {

struct GreedyText {
  std::vector<std::int32_t> prompt, ids;
};

struct GoldenCase {
  std::string name;
  ModelConfig config;
  std::map<std::string, HostTensor> weights;  ///< views of the pack's bytes
  std::vector<std::int32_t> prompt;
  std::vector<float> logits;  ///< [prompt, vocab_size]
  std::vector<GreedyText> greedy;
};

class GoldenPack {
 public:
  /// Error(usage) if the file cannot be read, or is not one that pack_golden.py wrote: every length
  /// is checked against the file, the sizes against each other, and the whole by its checksum.
  explicit GoldenPack(const std::string& path);
  GoldenPack(const GoldenPack&) = delete;  // the cases view its bytes
  GoldenPack& operator=(const GoldenPack&) = delete;

  const std::vector<GoldenCase>& cases() const { return cases_; }

 private:
  std::vector<std::byte> bytes_;
  std::vector<GoldenCase> cases_;
};

/// A golden case as a model's layers see it.
class GoldenWeights final : public WeightSource {
 public:
  explicit GoldenWeights(const GoldenCase& golden) : golden_(golden) {}
  HostTensor tensor(const std::string& name, const std::vector<std::int64_t>& shape) override;
  HostMatrix linear(const std::string& name, std::int64_t in, std::int64_t out) override;

 private:
  const GoldenCase& golden_;
};

}  // namespace shardlm::gpu_check
