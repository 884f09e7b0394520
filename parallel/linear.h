// The linear layers of tensor parallelism. Column-parallel: each rank computes some outputs, no
// communication. Row-parallel: each rank holds some inputs and yields a Partial of all outputs.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "parallel/context.h"
#include "parallel/partition.h"
#include "parallel/residual.h"
#include "parallel/weight_source.h"

namespace shardlm {

class ColumnParallelLinear {
 public:
  /// y = x W + b for the output columns `columns` of W [in, out].
  ColumnParallelLinear(const Context& context, WeightSource& source, const std::string& name,
                       std::int64_t in, std::int64_t out, const std::vector<Range>& columns);
  Tensor operator()(const Tensor& x) const;                  ///< [T, in] -> [T, local columns]
  Tensor activated(const Tensor& x, Activation kind) const;  ///< activation(y), in one op
  /// Attention over y = [q | k | v], in one op: [T, in] -> [T, local columns / 3]
  Tensor attended(const Tensor& x, KvStorage& cache, const Sequences& sequences, float scale) const;
  std::size_t weight_bytes() const { return weight_->bytes(); }

 private:
  const Context& context_;
  std::unique_ptr<WeightMatrix> weight_;  // [in, local columns]
  Tensor bias_;                           // [1, local columns]
};

/// What a row-parallel layer's result is called, and where it is reduced.
struct ReductionNames {
  Site site;
  std::string sum;       ///< the reduced sum with its bias
  std::string residual;  ///< the residual stream after it
};

class RowParallelLinear {
 public:
  /// Inputs `rows` of W [in, out], dealt to ranks in blocks of `unit`; the whole bias, added once
  /// after the sum.
  RowParallelLinear(const Context& context, WeightSource& source, const std::string& name,
                    std::int64_t in, std::int64_t out, Range rows, std::int64_t unit,
                    ReductionNames names);
  Partial operator()(const Tensor& x) const;  ///< [T, local inputs] -> addend of [T, out]
  std::size_t weight_bytes() const { return weight_->bytes(); }

 private:
  const Context& context_;
  std::unique_ptr<WeightMatrix> weight_;  // [local inputs, out]
  Tensor bias_;                           // [1, out]
  ReductionNames names_;
  std::int64_t block_ = 0;  // of fixed point; 0: floats are summed
};

/// Element-wise activation of a column-parallel layer's output, fused with the layer unless
/// somebody listens to what is between.
class ColumnParallelActivation {
 public:
  ColumnParallelActivation(const Context& context, Activation kind, const Partition& columns,
                           const std::string& before, const std::string& after)
      : context_(context), kind_(kind), columns_(columns), before_(before), after_(after) {}
  /// activation(linear(x)): [T, in] -> [T, local columns]
  Tensor operator()(const ColumnParallelLinear& linear, const Tensor& x) const;

 private:
  const Context& context_;
  Activation kind_;
  Partition columns_;
  std::string before_, after_;
};

}  // namespace shardlm
