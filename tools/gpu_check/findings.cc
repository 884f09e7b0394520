#include "tools/gpu_check/findings.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace shardlm::gpu_check {
namespace {

constexpr std::size_t kMostPrinted = 20;

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.6g", value);
  return text;
}

}  // namespace

double rounding(DType dtype) {
  return dtype == DType::f32 ? 0x1p-24 : dtype == DType::f16 ? 0x1p-11 : 0x1p-8;
}

void Findings::near(const std::string& what, std::span<const float> got,
                    std::span<const double> want, double absolute, double relative) {
  if (got.size() != want.size()) {
    return require(false, what,
                   std::to_string(got.size()) + " values, not " + std::to_string(want.size()));
  }
  double worst = 0;
  std::size_t at = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (got[i] == want[i]) continue;
    const double limit = absolute + relative * std::abs(want[i]);
    const double share = std::abs(got[i] - want[i]) / limit;
    if (share <= worst) continue;
    worst = share;
    at = i;
    if (!(share <= 1)) break;  // NaN, too
  }
  worst_share_ = std::isnan(worst) ? worst : std::max(worst_share_, worst);
  require(worst <= 1, what,
          got.empty() ? ""
                      : "element " + std::to_string(at) + " is " + number(got[at]) + ", not " +
                            number(want[at]) + ": " + number(worst) + " times the tolerance");
}

void Findings::require(bool ok, const std::string& what, const std::string& text) {
  ++n_;
  if (!ok) failures_.push_back(what + ": " + text);
}

std::string Findings::summary() const {
  if (!failures_.empty()) {
    return std::to_string(failures_.size()) + " of " + std::to_string(n_) +
           " comparisons failed, first " + failures_.front();
  }
  return std::to_string(n_) + " comparisons, worst error " + number(worst_share_) + " of its limit";
}

Figures Findings::figures() const {
  Figures figures;
  figures.set("comparisons", n_).set("failed", failures_.size());
  figures.set("worst_error_share_of_limit", worst_share_);
  return figures;
}

int Findings::report() const {
  for (std::size_t i = 0; i < std::min(failures_.size(), kMostPrinted); ++i) {
    std::fprintf(stderr, "%s\n", failures_[i].c_str());
  }
  return failures_.empty() ? 0 : 1;
}

}  // namespace shardlm::gpu_check
