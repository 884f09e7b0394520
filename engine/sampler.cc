#include "engine/sampler.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "backend/candidate_order.h"
#include "base/error.h"
#include "base/philox.h"

namespace shardlm {
namespace {

constexpr std::int64_t kFirstAsk = 64;  // candidates a rank for top-p or min-p without top-k
constexpr std::int64_t kAskGrowth = 8;
constexpr int kMostAsked = std::numeric_limits<int>::max();

std::string place(std::uint64_t sequence, std::uint64_t position) {
  return fmt::format("sequence {}, position {}", sequence, position);
}

/// The best of the ranks' best candidates.
Candidate best_of(std::span<const LogitReply> by_rank) {
  const Candidate* best = nullptr;
  for (const LogitReply& reply : by_rank) {
    if (reply.candidates.empty()) continue;
    const Candidate& own = reply.candidates.front();
    if (best == nullptr || ranks_before(own, *best)) best = &own;
  }
  check(best != nullptr, "a rank with allowed ids sends a candidate");
  return *best;
}

}  // namespace

double raw_log_sum_exp(std::span<const LogitReply> by_rank, std::uint64_t sequence,
                       std::uint64_t position) {
  std::int32_t bad = -1;
  for (const LogitReply& reply : by_rank) {
    if (reply.first_bad_id >= 0 && (bad < 0 || reply.first_bad_id < bad)) bad = reply.first_bad_id;
  }
  if (bad >= 0) {
    fail(ExitCode::bug, {.what = "logits",
                         .expected = "finite numbers",
                         .found = fmt::format("one that is not at id {} (the first)", bad),
                         .where = place(sequence, position),
                         .remedy = "the weights hold numbers that are not finite or too large"});
  }
  const LogSumExp all = join(by_rank, &LogitReply::raw);
  if (!(all.sum > 0)) {
    fail(ExitCode::bug, {.what = "vocabulary",
                         .expected = "at least one id that may be sampled",
                         .found = "none",
                         .where = place(sequence, position)});
  }
  return all.max + std::log(all.sum);
}

double target_logprob(std::span<const LogitReply> by_rank, std::uint64_t sequence,
                      std::uint64_t position) {
  const double log_sum = raw_log_sum_exp(by_rank, sequence, position);
  for (const LogitReply& reply : by_rank) {
    if (reply.target) return static_cast<double>(*reply.target) - log_sum;
  }
  fail(ExitCode::bug, {.what = "target id",
                       .expected = "an id that some rank holds and that has a token",
                       .found = "none",
                       .where = place(sequence, position)});
}

Sampler::Sampler(const SamplingParams& params, std::uint64_t sequence,
                 std::span<const std::int32_t> prompt, std::int64_t vocab_size)
    : params_(params), sequence_(sequence), vocab_size_(vocab_size) {
  if (params_.temperature < kGreedyTemperature) params_.temperature = 0;
  if (params_.top_k < 0 || params_.top_k >= vocab_size) params_.top_k = 0;
  if (params_.repetition_penalty == 1) return;
  std::vector<std::int32_t> ids(prompt.begin(), prompt.end());
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  for (const std::int32_t id : ids) penalties_.push_back({.id = id, .repeated = true});
  counts_.assign(penalties_.size(), 0);
}

std::int64_t Sampler::first_ask() const {
  if (greedy() || !has_cuts()) return 1;
  if (params_.top_k > 0) return params_.top_k;  // the best k are among the ranks' best k
  return std::min(vocab_size_, std::max(kFirstAsk, 2 * last_kept_));
}

LogitQuery Sampler::query(std::uint64_t position) {
  if (asked_ == 0 || position != position_) asked_ = first_ask();
  position_ = position;
  LogitQuery query;
  query.repetition = static_cast<float>(params_.repetition_penalty);
  query.penalties = penalties_;
  query.temperature = params_.temperature;
  query.n_candidates = static_cast<int>(std::min<std::int64_t>(asked_, kMostAsked));
  query.noise = !greedy() && !has_cuts();
  query.seed = params_.seed;
  query.sequence = sequence_;
  query.position = position;
  query.n_top = static_cast<int>(std::clamp<std::int64_t>(params_.logprobs, 0, vocab_size_));
  return query;
}

std::optional<Sampled> Sampler::choose(std::span<const LogitReply> by_rank) {
  check(asked_ > 0, "choose() follows query()");
  const double log_sum = raw_log_sum_exp(by_rank, sequence_, position_);
  std::optional<Candidate> chosen;
  if (greedy() || !has_cuts()) {
    chosen = best_of(by_rank);
  } else {
    chosen = choose_among_kept(by_rank);
  }
  if (!chosen) {
    check(asked_ < vocab_size_, "all candidates suffice");
    asked_ = std::min(vocab_size_, asked_ * kAskGrowth);
    return std::nullopt;
  }
  asked_ = 0;
  Sampled sampled{chosen->id, static_cast<double>(chosen->raw) - log_sum, {}};
  collect_top(by_rank, log_sum, sampled);
  return sampled;
}

std::optional<Candidate> Sampler::choose_among_kept(std::span<const LogitReply> by_rank) {
  merge_candidates(by_rank, asked_, vocab_size_, ranking_);
  check(!ranking_.sorted.empty(), "a rank with allowed ids sends a candidate");
  const auto kept = kept_count(params_, ranking_, join(by_rank, &LogitReply::tempered));
  if (!kept) return std::nullopt;
  last_kept_ = static_cast<std::int64_t>(*kept);
  const NoiseKey key{params_.seed, sequence_, static_cast<std::uint32_t>(position_)};
  Candidate best;
  for (std::size_t i = 0; i < *kept; ++i) {
    Candidate candidate = ranking_.sorted[i];
    candidate.score = static_cast<double>(candidate.penalised) / params_.temperature +
                      gumbel(uniform(key, candidate.id));
    if (i == 0 || ranks_before(candidate, best)) best = candidate;
  }
  return best;
}

void Sampler::collect_top(std::span<const LogitReply> by_rank, double log_sum,
                          Sampled& sampled) const {
  if (params_.logprobs <= 0) return;
  std::vector<Candidate> all;
  for (const LogitReply& reply : by_rank) {
    all.insert(all.end(), reply.top.begin(), reply.top.end());
  }
  std::sort(all.begin(), all.end(), ranks_before);
  const std::size_t n = std::min(all.size(), static_cast<std::size_t>(params_.logprobs));
  for (std::size_t i = 0; i < n; ++i) {
    sampled.top.push_back({all[i].id, static_cast<double>(all[i].raw) - log_sum});
  }
}

void Sampler::accept(std::int32_t id) {
  const bool repeated = params_.repetition_penalty != 1;
  if (!repeated && params_.presence_penalty == 0 && params_.frequency_penalty == 0) return;
  const auto at = std::lower_bound(
      penalties_.begin(), penalties_.end(), id,
      [](const LogitPenalty& penalty, std::int32_t wanted) { return penalty.id < wanted; });
  const auto i = at - penalties_.begin();
  if (at == penalties_.end() || at->id != id) {
    penalties_.insert(at, {.id = id, .repeated = repeated});
    counts_.insert(counts_.begin() + i, 0);
  }
  const auto count = ++counts_[static_cast<std::size_t>(i)];
  penalties_[static_cast<std::size_t>(i)].subtract = static_cast<float>(
      params_.presence_penalty + static_cast<double>(count) * params_.frequency_penalty);
}

}  // namespace shardlm
