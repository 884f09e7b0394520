// Causal self-attention over this rank's heads and this rank's part of the KV cache.
#pragma once

#include <string>
#include <vector>

#include "parallel/context.h"
#include "parallel/linear.h"
#include "parallel/partition.h"

namespace shardlm {

/// The columns of a fused [q | k | v] projection that belong to a range of heads: one range each.
std::vector<Range> fused_qkv_columns(Range heads, std::int64_t n_head, std::int64_t head_dim);

class HeadParallelAttention {
 public:
  HeadParallelAttention(const Context& context, const std::string& name, const Partition& heads,
                        std::int64_t head_dim, float scale);
  /// qkv [T, 3 * local heads * head_dim] -> [T, local heads * head_dim]
  Tensor operator()(const Tensor& qkv, const Sequences& sequences, KvStorage& cache) const;
  /// The same of qkv = c_attn(x), fused with it unless somebody listens to what is between.
  Tensor operator()(const ColumnParallelLinear& c_attn, const Tensor& x, const Sequences& sequences,
                    KvStorage& cache) const;

 private:
  const Context& context_;
  Partition heads_;
  std::int64_t head_dim_;
  float scale_;
  std::string q_name_, k_name_, v_name_, heads_name_;
};

}  // namespace shardlm
