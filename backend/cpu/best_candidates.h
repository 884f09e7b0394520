// The best of many candidates, without sorting the others.
#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <vector>

#include "backend/candidate_order.h"

namespace shardlm {

/// Keeps the n best of what it is offered, in an order in which ids ascend. Memory is kept from use
/// to use.
class BestCandidates {
 public:
  void reset(std::size_t n) {
    n_ = n;
    kept_.clear();
    kept_.reserve(room());
    threshold_ =
        n == 0 ? std::numeric_limits<double>::infinity() : -std::numeric_limits<double>::infinity();
  }
  std::size_t wanted() const { return n_; }

  /// Only a higher score than this can enter (equal scores: the ids before came first).
  double threshold() const { return threshold_; }

  void offer(const Candidate& candidate) {
    if (candidate.score <= threshold_) return;
    if (n_ == 1) kept_.clear();
    kept_.push_back(candidate);
    if (n_ == 1) threshold_ = candidate.score;
    if (kept_.size() == room()) shrink();
  }

  /// Brings threshold() up to date.
  void settle() {
    if (n_ > 0 && kept_.size() >= n_) shrink();
  }

  /// Appends the best n, in no order.
  void move_to(std::vector<Candidate>& to) {
    if (kept_.size() > n_) shrink();
    to.insert(to.end(), kept_.begin(), kept_.end());
  }

 private:
  // Room for as many again (and for some) before the worse half is thrown away.
  std::size_t room() const { return n_ + std::max<std::size_t>(n_, 64); }

  void shrink() {
    const auto worst = kept_.begin() + static_cast<std::ptrdiff_t>(n_ - 1);
    std::nth_element(kept_.begin(), worst, kept_.end(), ranks_before);
    threshold_ = worst->score;
    kept_.resize(n_);
  }

  std::size_t n_ = 0;
  double threshold_ = 0;
  std::vector<Candidate> kept_;
};

}  // namespace shardlm
