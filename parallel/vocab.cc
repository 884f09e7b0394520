#include "parallel/vocab.h"

#include <vector>

#include "parallel/shard.h"

namespace shardlm {

VocabTable load_vocab_table(const Context& context, WeightSource& source, const std::string& name,
                            std::int64_t vocab_size, std::int64_t n_embd, Range ids) {
  const HostMatrix table{.tensor = source.tensor(name, {vocab_size, n_embd}),
                         .in = n_embd,
                         .out = vocab_size,
                         .rows_are_outputs = true,
                         .vocabulary = true};
  return load_columns(context.backend, source, table, {ids});
}

Partial VocabParallelEmbedding::operator()(const Indices& ids) const {
  Tensor out = context_.backend.allocate(ids.size(), table_->in());
  context_.backend.embed(*table_, ids, static_cast<std::int32_t>(ids_.begin), out);
  return Partial({SiteKind::embed}, std::move(out), nullptr, sum_name_, residual_name_);
}

Tensor VocabParallelHead::operator()(const Tensor& h, const Indices& rows) const {
  Tensor picked = context_.backend.allocate_activation(rows.size(), h.cols());
  context_.backend.gather_rows(h, rows, picked);
  Tensor logits = context_.backend.allocate(picked.rows(), table_->out());
  context_.backend.matmul(picked, *table_, nullptr, logits);
  context_.tap.sharded(name_, logits, ids_, 1);
  return logits;
}

}  // namespace shardlm
