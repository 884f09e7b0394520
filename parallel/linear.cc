#include "parallel/linear.h"

#include "parallel/shard.h"

namespace shardlm {

ColumnParallelLinear::ColumnParallelLinear(const Context& context, WeightSource& source,
                                           const std::string& name, std::int64_t in,
                                           std::int64_t out, const std::vector<Range>& columns)
    : context_(context) {
  weight_ =
      load_columns(context.backend, source, source.linear(name + ".weight", in, out), columns);
  bias_ = load_vector(context.backend, source, source.tensor(name + ".bias", {out}), columns);
}

Tensor ColumnParallelLinear::operator()(const Tensor& x) const {
  Tensor y = context_.backend.allocate_activation(x.rows(), weight_->out());
  context_.backend.matmul(x, *weight_, &bias_, y);
  return y;
}

Tensor ColumnParallelLinear::activated(const Tensor& x, Activation kind) const {
  Tensor y = context_.backend.allocate_activation(x.rows(), weight_->out());
  context_.backend.matmul_activate(x, *weight_, &bias_, kind, y);
  return y;
}

Tensor ColumnParallelLinear::attended(const Tensor& x, KvStorage& cache, const Sequences& sequences,
                                      float scale) const {
  Backend& backend = context_.backend;
  Tensor qkv = backend.allocate_activation(x.rows(), weight_->out());
  Tensor out = backend.allocate_activation(x.rows(), weight_->out() / 3);
  backend.project_and_attend(x, *weight_, &bias_, qkv, cache, sequences, scale, out);
  return out;
}

RowParallelLinear::RowParallelLinear(const Context& context, WeightSource& source,
                                     const std::string& name, std::int64_t in, std::int64_t out,
                                     Range rows, ReductionNames names)
    : context_(context), names_(std::move(names)) {
  weight_ = load_rows(context.backend, source, source.linear(name + ".weight", in, out), rows);
  bias_ = load_replicated(context.backend, source, source.tensor(name + ".bias", {out}));
}

Partial RowParallelLinear::operator()(const Tensor& x) const {
  Tensor y = allocate_addend(context_, names_.site, x.rows(), weight_->out());
  context_.backend.matmul(x, *weight_, nullptr, y);
  return Partial(names_.site, std::move(y), &bias_, names_.sum, names_.residual);
}

Tensor ColumnParallelActivation::operator()(const ColumnParallelLinear& linear,
                                            const Tensor& x) const {
  if (!context_.tap.listening()) return linear.activated(x, kind_);
  Tensor y = linear(x);
  context_.tap.sharded(before_, y, columns_, 1);
  context_.backend.activate(kind_, y);
  context_.tap.sharded(after_, y, columns_, 1);
  return y;
}

}  // namespace shardlm
