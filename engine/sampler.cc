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

// Candidates a rank that are listed for top-p or min-p without top-k: as many as cost less to sort
// and to draw from than a race.
constexpr std::int64_t kListed = 64;
constexpr std::int64_t kRunners = 16;  // a rank in a race
constexpr std::int64_t kAskGrowth = 16;
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

void check_logits(std::span<const LogitReply> by_rank, std::uint64_t sequence,
                  std::uint64_t position) {
  std::int32_t bad = -1;
  bool any = false;
  for (const LogitReply& reply : by_rank) {
    if (reply.first_bad_id >= 0 && (bad < 0 || reply.first_bad_id < bad)) bad = reply.first_bad_id;
    any = any || reply.raw.max > -std::numeric_limits<double>::infinity();
  }
  if (bad >= 0) {
    fail(ExitCode::bug, {.what = "logits",
                         .expected = "finite numbers",
                         .found = fmt::format("one that is not at id {} (the first)", bad),
                         .where = place(sequence, position),
                         .remedy = "the weights hold numbers that are not finite or too large"});
  }
  if (!any) {
    fail(ExitCode::bug, {.what = "vocabulary",
                         .expected = "at least one id that may be sampled",
                         .found = "none",
                         .where = place(sequence, position)});
  }
}

double raw_log_sum_exp(std::span<const LogitReply> by_rank, std::uint64_t sequence,
                       std::uint64_t position) {
  check_logits(by_rank, sequence, position);
  const LogSumExp all = join(by_rank, &LogitReply::raw);
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

void Sampler::ask_first() {
  races_ = false;
  if (greedy() || !has_cuts()) {
    asked_ = 1;
  } else if (params_.top_k > 0) {
    asked_ = params_.top_k;  // the best k are among the ranks' best k
  } else {
    races_ = race_.kept_at_least() > kListed;  // last time: a list would not have done
    asked_ = std::min(vocab_size_, races_ ? kRunners : kListed);
  }
  race_.restart(params_);
}

LogitQuery Sampler::query(std::uint64_t position) {
  if (asked_ == 0 || position != position_) ask_first();
  position_ = position;
  LogitQuery query;
  query.repetition = static_cast<float>(params_.repetition_penalty);
  query.penalties = penalties_;
  query.temperature = params_.temperature;
  query.n_candidates = static_cast<int>(std::min<std::int64_t>(asked_, kMostAsked));
  query.noise = !greedy() && (!has_cuts() || races_);
  query.seed = params_.seed;
  query.sequence = sequence_;
  query.position = position;
  query.n_top = static_cast<int>(std::clamp<std::int64_t>(params_.logprobs, 0, vocab_size_));
  query.raw_sum = wants_logprobs();
  query.tempered_sum = !greedy() && params_.top_p < 1 && params_.top_k == 0;
  if (races_) race_.add_bounds(query);
  return query;
}

std::optional<Sampled> Sampler::choose(std::span<const LogitReply> by_rank) {
  check(asked_ > 0, "choose() follows query()");
  check_logits(by_rank, sequence_, position_);
  const std::optional<Candidate> chosen = choose_id(by_rank);
  if (!chosen) return std::nullopt;
  asked_ = 0;
  Sampled sampled{chosen->id, std::numeric_limits<double>::quiet_NaN(), {}};
  if (!wants_logprobs()) return sampled;
  const double log_sum = raw_log_sum_exp(by_rank, sequence_, position_);
  sampled.logprob = static_cast<double>(chosen->raw) - log_sum;
  collect_top(by_rank, log_sum, sampled);
  return sampled;
}

// None: sets what is asked next.
std::optional<Candidate> Sampler::choose_id(std::span<const LogitReply> by_rank) {
  if (greedy() || !has_cuts()) return best_of(by_rank);
  if (!races_) {
    const std::optional<Candidate> chosen = choose_listed(by_rank);
    if (chosen) return chosen;
    check(asked_ < vocab_size_ && params_.top_k == 0, "all candidates suffice");
    races_ = true;
    asked_ = std::min(vocab_size_, kRunners);
    return std::nullopt;
  }
  const std::optional<Candidate> winner = race_.winner(by_rank, asked_, vocab_size_);
  if (winner || race_.asks_bounds()) return winner;
  check(asked_ < vocab_size_, "of all runners one is kept");
  asked_ = std::min(vocab_size_, asked_ * kAskGrowth);
  return std::nullopt;
}

std::optional<Candidate> Sampler::choose_listed(std::span<const LogitReply> by_rank) {
  merge_candidates(by_rank, asked_, vocab_size_, ranking_);
  check(!ranking_.sorted.empty(), "a rank with allowed ids sends a candidate");
  const auto kept = kept_count(params_, ranking_, join(by_rank, &LogitReply::tempered));
  if (!kept) return std::nullopt;
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
