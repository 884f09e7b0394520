#include "parallel/linear.h"

#include <fmt/format.h>

#include "base/error.h"
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

namespace {

void check_blocks(const std::string& name, std::int64_t in, std::int64_t block) {
  const std::int64_t blocks = (in + block - 1) / block;
  if (blocks <= kFixedBlocks) return;
  fail(ExitCode::usage, {.what = "exact sums of " + name,
                         .expected = fmt::format("at most {} blocks of inputs", kFixedBlocks),
                         .found = fmt::format("{} inputs in blocks of {}", in, block),
                         .remedy = "use --reduction ordered"});
}

[[noreturn]] void fail_misfit(Site site, const FixedMisfit& misfit) {
  fail(ExitCode::bug,
       {.what = fmt::format("{}: exact sum of row {} of the step, output {}", site_text(site),
                            misfit.row, misfit.output),
        .expected = fmt::format("parts of magnitudes below {}", kFixedLimit),
        .found = fmt::format("{}", misfit.sum),
        .remedy = "use --reduction ordered; if logits are not finite there, look at the weights"});
}

}  // namespace

RowParallelLinear::RowParallelLinear(const Context& context, WeightSource& source,
                                     const std::string& name, std::int64_t in, std::int64_t out,
                                     Range rows, std::int64_t unit, ReductionNames names)
    : context_(context), names_(std::move(names)) {
  if (context.reduction == Reduction::exact) {
    block_ = sum_block(context.backend.precision(), unit);
    check_blocks(name, in, block_);
  }
  weight_ = load_rows(context.backend, source, source.linear(name + ".weight", in, out), rows);
  bias_ = load_replicated(context.backend, source, source.tensor(name + ".bias", {out}));
}

Partial RowParallelLinear::operator()(const Tensor& x) const {
  const DType type = block_ > 0 ? DType::i64 : DType::f32;
  Tensor y = allocate_addend(context_, names_.site, x.rows(), weight_->out(), type);
  if (block_ == 0) {
    context_.backend.matmul(x, *weight_, nullptr, y);
  } else if (const auto misfit = context_.backend.matmul_fixed(x, *weight_, block_, y)) {
    fail_misfit(names_.site, *misfit);
  }
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
