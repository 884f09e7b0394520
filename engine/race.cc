#include "engine/race.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"

namespace shardlm {
namespace {

bool comes_before(const LogitBound& a, const LogitBound& b) {
  return a.penalised > b.penalised || (a.penalised == b.penalised && a.id < b.id);
}

}  // namespace

void CutRace::restart(const SamplingParams& params) {
  params_ = params;
  bounds_.clear();
  last_kept_.reset();
  first_cut_.reset();
  kept_at_least_ = 0;
}

void CutRace::add_bounds(LogitQuery& query) const {
  if (bounds_.empty()) return;
  query.noise = false;
  query.n_candidates = 0;
  query.tempered_sum = false;
  query.n_bounds = static_cast<int>(bounds_.size());
  std::copy(bounds_.begin(), bounds_.end(), query.bounds.begin());
}

std::optional<Candidate> CutRace::winner(std::span<const LogitReply> by_rank, std::int64_t asked,
                                         std::int64_t vocab_size) {
  if (asks_bounds()) {
    learn_masses(by_rank);
    return first_kept();
  }
  merge_candidates(by_rank, asked, vocab_size, runners_);
  check(!runners_.sorted.empty(), "a rank with allowed ids sends a candidate");
  if (params_.top_p >= 1) {
    best_ = -std::numeric_limits<double>::infinity();
    for (const LogitReply& reply : by_rank) best_ = std::max(best_, reply.tempered.max);
    return first_kept();
  }
  const LogSumExp all = join(by_rank, &LogitReply::tempered);
  best_ = all.max;
  wanted_ = params_.top_p * all.sum;
  // No id has more mass than the best one: so many are needed at least.
  kept_at_least_ = params_.min_p > 0 ? 0 : static_cast<std::int64_t>(wanted_);
  return first_kept();
}

void CutRace::learn_masses(std::span<const LogitReply> by_rank) {
  for (std::size_t j = 0; j < bounds_.size(); ++j) {
    double before = 0;
    for (const LogitReply& reply : by_rank) {
      if (reply.before[j] > 0) before += reply.before[j] * std::exp(reply.tempered.max - best_);
    }
    // The best id is kept whatever top-p says.
    if (before == 0 || before < wanted_) {
      if (!last_kept_ || comes_before(*last_kept_, bounds_[j])) last_kept_ = bounds_[j];
    } else if (!first_cut_ || comes_before(bounds_[j], *first_cut_)) {
      first_cut_ = bounds_[j];
    }
  }
  bounds_.clear();
}

/// None: not known yet.
std::optional<bool> CutRace::is_kept(const Candidate& runner) const {
  const double x = static_cast<double>(runner.penalised) / params_.temperature;
  if (std::exp(x - best_) < params_.min_p) return false;
  if (params_.top_p >= 1) return true;
  const LogitBound own{runner.penalised, runner.id};
  if (last_kept_ && !comes_before(*last_kept_, own)) return true;
  if (first_cut_ && !comes_before(own, *first_cut_)) return false;
  return std::nullopt;
}

/// None: there are bounds to ask about now, or all runners that are known to lead are cut.
std::optional<Candidate> CutRace::first_kept() {
  for (std::size_t i = 0; i < runners_.known && bounds_.size() < kLogitBounds; ++i) {
    const Candidate& runner = runners_.sorted[i];
    const std::optional<bool> kept = is_kept(runner);
    if (!kept) bounds_.push_back({runner.penalised, runner.id});
    if (!kept || !*kept) continue;
    if (bounds_.empty()) return runner;
    break;  // only those ahead of it matter
  }
  return std::nullopt;
}

}  // namespace shardlm
