// The rows of a step, in one part or in two that take turns: while one computes, the other's sum is
// under way.
#pragma once

#include <array>
#include <optional>
#include <vector>

#include "parallel/context.h"
#include "parallel/residual.h"

namespace shardlm {

/// Some rows of a step, with their residual stream.
struct Lane {
  ResidualStream x;
  Step step;
};

/// All rows of a step. Two lanes if the communicator overlaps: a sequence may be cut between them,
/// its first part being in the first lane, whose attention comes before the second's in each layer.
/// A row's result is the same either way (Backend::attention).
class Lanes {
 public:
  /// `x` [T, n_embd]: what the streams begin with.
  Lanes(const Context& context, const Step& step, Tensor x);
  Lanes(const Lanes&) = delete;
  Lanes& operator=(const Lanes&) = delete;

  class Iterator {
   public:
    explicit Iterator(std::optional<Lane>* at) : at_(at) {}
    Lane& operator*() const { return **at_; }
    Iterator& operator++() {
      ++at_;
      return *this;
    }
    bool operator==(const Iterator&) const = default;

   private:
    std::optional<Lane>* at_;
  };
  Iterator begin() { return Iterator(lanes_.data()); }
  Iterator end() { return Iterator(lanes_.data() + n_); }

  /// Of all rows: [T, n_embd].
  Tensor normed(const LayerNorm& norm);

 private:
  const Context& context_;
  Tensor x_;
  int n_ = 1;
  std::array<std::optional<Lane>, 2> lanes_;
  std::array<std::vector<SequenceRows>, 2> sequences_;  // what the lanes' steps view
};

/// The rows [begin, end) of a step as a step of their own; `sequences` receives theirs.
Step cut_step(const Step& step, std::int64_t begin, std::int64_t end,
              std::vector<SequenceRows>& sequences);

}  // namespace shardlm
