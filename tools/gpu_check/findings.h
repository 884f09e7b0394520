// What comparisons have found.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "tools/gpu_check/figures.h"

namespace shardlm::gpu_check {

class Findings {
 public:
  /// |got - want| <= absolute + relative |want|, element by element; NaN is never near.
  void near(const std::string& what, std::span<const float> got, std::span<const double> want,
            double absolute, double relative = 0);
  /// `text` says what is wrong if `ok` is false.
  void require(bool ok, const std::string& what, const std::string& text);

  std::size_t checked() const { return n_; }
  std::size_t failed() const { return failures_.size(); }
  /// The error that came closest to its limit, as a share of it.
  double worst_share() const { return worst_share_; }
  /// "133 comparisons, worst error 0.21 of its limit", or the first failure.
  std::string summary() const;
  Figures figures() const;
  /// Prints the failures to standard error. 0, or 1 if there are some.
  int report() const;

 private:
  std::size_t n_ = 0;
  double worst_share_ = 0;
  std::vector<std::string> failures_;
};

/// Largest relative error of one rounding to the type: 2^-24, 2^-11, 2^-8 (half a unit in the last
/// place; where terms are summed, 2^-8 and 2^-11 stand for the half type's own roundings).
double rounding(DType dtype);

}  // namespace shardlm::gpu_check
