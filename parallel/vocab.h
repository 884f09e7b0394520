// Vocabulary-parallel embedding and LM head. Each rank holds some rows of the table; a tied head
// shares the embedding's matrix, so that the table is held once.
#pragma once

#include <memory>
#include <string>

#include "parallel/context.h"
#include "parallel/partition.h"
#include "parallel/residual.h"
#include "parallel/weight_source.h"

namespace shardlm {

using VocabTable = std::shared_ptr<const WeightMatrix>;  // [n_embd, local ids]

/// This rank's rows of a table [vocab_size, n_embd].
VocabTable load_vocab_table(const Context& context, WeightSource& source, const std::string& name,
                            std::int64_t vocab_size, std::int64_t n_embd, Range ids);

class VocabParallelEmbedding {
 public:
  VocabParallelEmbedding(const Context& context, VocabTable table, Range ids,
                         std::string residual_name)
      : context_(context),
        table_(std::move(table)),
        ids_(ids),
        residual_name_(std::move(residual_name)) {}
  /// The rows of these ids that live here, zeros for the others: addend of [T, n_embd].
  Partial operator()(const Indices& ids) const;

 private:
  const Context& context_;
  VocabTable table_;
  Range ids_;
  std::string sum_name_, residual_name_;
};

class VocabParallelHead {
 public:
  VocabParallelHead(const Context& context, VocabTable table, const Partition& ids,
                    std::string name)
      : context_(context), table_(std::move(table)), ids_(ids), name_(std::move(name)) {}
  /// Rows of h [T, n_embd] -> [rows, local ids]
  Tensor operator()(const Tensor& h, const Indices& rows) const;
  std::size_t weight_bytes() const { return table_->bytes(); }

 private:
  const Context& context_;
  VocabTable table_;
  Partition ids_;
  std::string name_;
};

}  // namespace shardlm
