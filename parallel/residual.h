// The two types that make an all-reduce impossible to forget, to do twice, or to bias P times.
#pragma once

#include <optional>
#include <string>

#include "comm/communicator.h"
#include "parallel/context.h"
#include "parallel/layer_norm.h"

namespace shardlm {

/// This rank's addend of a sum over ranks that no one has taken yet, its bias still pending. It is
/// no Tensor: the one thing to do with it is to add it to the residual stream.
class [[nodiscard]] Partial {
 public:
  /// `name`: what the sum with its bias is called in a dump ("" = it has no name of its own);
  /// `residual_name`: what the stream is called after it. Bias and names outlive the Partial.
  Partial(Site site, Tensor addend, const Tensor* bias, const std::string& name,
          const std::string& residual_name)
      : site_(site),
        addend_(std::move(addend)),
        bias_(bias),
        name_(&name),
        residual_name_(&residual_name) {}
  Partial(Partial&&) = default;
  Partial& operator=(Partial&&) = default;
  Partial(const Partial&) = delete;
  Partial& operator=(const Partial&) = delete;

 private:
  friend class ResidualStream;
  Site site_;
  Tensor addend_;       // [T, n_embd]
  const Tensor* bias_;  // [1, n_embd] or none
  const std::string* name_;
  const std::string* residual_name_;
};

/// Where a layer writes its addend [rows, cols] for the all-reduce at `site`: where the
/// communicator wants it, else in a tensor of the back end; float32 or fixed point (i64). No other
/// collective may come before that all-reduce.
Tensor allocate_addend(const Context& context, Site site, std::int64_t rows, std::int64_t cols,
                       DType dtype = DType::f32);

/// The residual stream [T, n_embd], equal on all ranks. add() leaves the reduction pending (or
/// starts it, where the communicator overlaps), so that the normed() that follows does all-reduce +
/// bias + residual + LayerNorm in one pass.
class ResidualStream {
 public:
  ResidualStream(const Context& context, Tensor x) : context_(context), x_(std::move(x)) {}
  void add(Partial partial);
  Tensor normed(const LayerNorm& norm);  ///< [T, n_embd]
  void settle();                         ///< nothing is pending any more

 private:
  void settle(const LayerNormParams* norm, Tensor* normed);
  void settle_in_view(const Partial& partial);

  const Context& context_;
  Tensor x_;
  std::optional<Partial> pending_;
  bool started_ = false;  ///< the pending one is under way
};

}  // namespace shardlm
