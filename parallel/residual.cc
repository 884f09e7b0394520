#include "parallel/residual.h"

#include <array>
#include <vector>

namespace shardlm {

Tensor allocate_addend(const Context& context, Site site, std::int64_t rows, std::int64_t cols,
                       DType dtype) {
  // A dump gathers in between; a sum in the background may stand before.
  if (!context.tap.listening() && !context.comm.overlaps()) {
    if (std::optional<Tensor> place = context.comm.addend(site, rows, cols, dtype)) {
      return *place;
    }
  }
  if (dtype == DType::i64) return context.backend.allocate_fixed(rows, cols);
  return context.backend.allocate(rows, cols);
}

void ResidualStream::add(Partial partial) {
  settle();
  pending_ = std::move(partial);
  started_ = context_.comm.overlaps() && !context_.tap.listening();
  if (started_) context_.comm.start_all_reduce(pending_->site_, pending_->addend_);
}

void ResidualStream::settle() { settle(nullptr, nullptr); }

Tensor ResidualStream::normed(const LayerNorm& norm) {
  Tensor out = context_.backend.allocate_activation(x_.rows(), x_.cols());
  if (pending_ && !context_.tap.listening()) {
    settle(&norm.params(), &out);
  } else {
    settle();
    context_.backend.layer_norm(x_, norm.params(), out);
  }
  context_.tap.replicated(norm.name(), out);
  return out;
}

void ResidualStream::settle(const LayerNormParams* norm, Tensor* normed) {
  if (!pending_) return;
  const Partial partial = std::move(*pending_);
  pending_.reset();
  if (context_.tap.listening()) return settle_in_view(partial);
  const ResidualUpdate update{
      .bias = partial.bias_, .residual = &x_, .norm = norm, .normed = normed};
  if (started_) return context_.comm.finish_all_reduce(update);
  context_.comm.all_reduce(partial.site_, partial.addend_, update);
}

// The same sums in the same order, with the reduced addend shown before it joins the stream.
void ResidualStream::settle_in_view(const Partial& partial) {
  const std::vector<float> zeros(static_cast<std::size_t>(x_.elements()), 0.0F);
  Tensor sum = context_.backend.allocate(x_.rows(), x_.cols());
  context_.backend.upload(zeros, sum);
  context_.comm.all_reduce(partial.site_, partial.addend_,
                           {.bias = partial.bias_, .residual = &sum});
  if (!partial.name_->empty()) context_.tap.replicated(*partial.name_, sum);
  const std::array addends = {sum};
  context_.backend.update_residual(addends, {.residual = &x_});
  context_.tap.replicated(*partial.residual_name_, x_);
}

}  // namespace shardlm
