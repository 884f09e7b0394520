// A checkpoint as a GPT-2-like family sees it: one spelling of names, one orientation of linear
// weights, and a report of what was not used.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "io/checkpoint.h"
#include "model/config.h"
#include "parallel/weight_source.h"

namespace shardlm {

/// Serves the layers from a checkpoint:
/// - names are asked without "transformer."; the files may have them with or without it;
/// - linear weights may be [in, out] (Conv1D) or [out, in], throughout: the non-square ones tell,
///   and a mixture is refused;
/// - "wte.weight" of a tied model may stand in the files as "lm_head.weight" alone.
class CheckpointWeights final : public WeightSource {
 public:
  CheckpointWeights(const Checkpoint& checkpoint, const ModelConfig& config);

  HostTensor tensor(const std::string& name, const std::vector<std::int64_t>& shape) override;
  HostMatrix linear(const std::string& name, std::int64_t in, std::int64_t out) override;

  void done_with(const HostTensor& tensor, std::int64_t first, std::int64_t count) override;

  /// Tensors that no layer asked for, the causal-mask buffers of old files left out.
  std::vector<std::string> unused() const;
  /// Set if a tied model's files hold an lm_head.weight whose rows `ids` differ from wte.weight.
  bool lm_head_differs(std::int64_t first_id, std::int64_t end_id) const;

 private:
  const HostTensor* find(const std::string& name) const;
  const HostTensor& require(const std::string& name) const;
  std::string where() const;  // a weight file, for messages
  void find_prefix();
  void find_orientation();

  const Checkpoint& checkpoint_;
  const ModelConfig& config_;
  std::string prefix_;
  bool rows_are_outputs_ = false;
  std::set<std::string> used_;
};

}  // namespace shardlm
