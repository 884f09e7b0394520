#include "parallel/attention.h"

namespace shardlm {

std::vector<Range> fused_qkv_columns(Range heads, std::int64_t n_head, std::int64_t head_dim) {
  std::vector<Range> columns;
  for (std::int64_t part = 0; part < 3; ++part) {
    const std::int64_t base = part * n_head * head_dim;
    columns.push_back({base + heads.begin * head_dim, base + heads.end * head_dim});
  }
  return columns;
}

HeadParallelAttention::HeadParallelAttention(const Context& context, const std::string& name,
                                             const Partition& heads, std::int64_t head_dim,
                                             float scale)
    : context_(context),
      heads_(heads),
      head_dim_(head_dim),
      scale_(scale),
      q_name_(name + ".q"),
      k_name_(name + ".k"),
      v_name_(name + ".v"),
      heads_name_(name + ".heads") {}

Tensor HeadParallelAttention::operator()(const Tensor& qkv, const Sequences& sequences,
                                         KvStorage& cache) const {
  const std::int64_t width = qkv.cols() / 3;
  const Tensor q = qkv.columns(0, width), k = qkv.columns(width, 2 * width),
               v = qkv.columns(2 * width, 3 * width);
  context_.tap.sharded(q_name_, q, heads_, head_dim_);
  context_.tap.sharded(k_name_, k, heads_, head_dim_);
  context_.tap.sharded(v_name_, v, heads_, head_dim_);
  Tensor out = context_.backend.allocate_activation(qkv.rows(), width);
  context_.backend.attention(q, k, v, cache, sequences, scale_, out);
  context_.tap.sharded(heads_name_, out, heads_, head_dim_);
  return out;
}

Tensor HeadParallelAttention::operator()(const ColumnParallelLinear& c_attn, const Tensor& x,
                                         const Sequences& sequences, KvStorage& cache) const {
  if (context_.tap.listening()) return (*this)(c_attn(x), sequences, cache);
  return c_attn.attended(x, cache, sequences, scale_);
}

}  // namespace shardlm
