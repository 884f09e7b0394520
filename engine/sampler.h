// Chooses the tokens of one sequence from what the ranks say about their shares of the vocabulary:
// a few candidates and a log-sum-exp each, never all logits.
//
//   LogitQuery query = sampler.query(position);         every rank answers it about its shard
//   auto token = sampler.choose(replies_in_rank_order);  none: query() again, for more candidates
//   sampler.accept(token->id);
//
// The result is exact: equal to that of a single rank which sees every logit (engine/cuts.h says
// what rounding at a top-p boundary can mean). A draw depends on (seed, sequence, position) and
// the logits alone: not on ranks, neighbours in the batch, or threads.
//
// Without cuts the ranks add Gumbel noise to their logits and send the best: the best over all
// ranks is the draw. With cuts they send their best logits, and the same noise decides among the
// ids that are kept, so that a cut which keeps everything gives the same token as no cut. Where
// top-p or min-p keep too many to list, the ranks send the best by noise (engine/race.h).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "engine/cuts.h"
#include "engine/race.h"
#include "engine/sampling.h"

namespace shardlm {

struct TopLogprob {
  std::int32_t id = 0;
  double logprob = 0;
};

struct Sampled {
  std::int32_t id = 0;
  double logprob = 0;           ///< natural log-softmax of the raw logits over the allowed ids;
                                ///< NaN unless log-probabilities were asked for
  std::vector<TopLogprob> top;  ///< best raw first, lowest id on ties; as many as were asked for
                                ///< (SamplingParams::logprobs) or are allowed
};

class Sampler {
 public:
  /// `sequence` is the index in the run; the params must be valid (validate()).
  Sampler(const SamplingParams& params, std::uint64_t sequence,
          std::span<const std::int32_t> prompt, std::int64_t vocab_size);

  /// What to ask about the logits from which the token at `position` (below 2^32) is chosen. Its
  /// spans are valid until the next call of accept().
  LogitQuery query(std::uint64_t position);

  /// Merges the replies to the last query, in rank order. None: the candidates do not suffice; ask
  /// what query() of the same position says now. A logit that is not finite, or a vocabulary with
  /// no allowed id, is Error(ExitCode::bug).
  std::optional<Sampled> choose(std::span<const LogitReply> by_rank);

  /// The token joins the history on which the penalties rest.
  void accept(std::int32_t id);

 private:
  bool greedy() const { return params_.temperature == 0; }
  bool has_cuts() const { return params_.top_k > 0 || params_.top_p < 1 || params_.min_p > 0; }
  bool wants_logprobs() const { return params_.logprobs >= 0; }
  void ask_first();
  std::optional<Candidate> choose_id(std::span<const LogitReply> by_rank);
  std::optional<Candidate> choose_listed(std::span<const LogitReply> by_rank);
  void collect_top(std::span<const LogitReply> by_rank, double log_sum, Sampled& sampled) const;

  SamplingParams params_;  // temperature below kGreedyTemperature is 0, a cut that cuts nothing 0
  std::uint64_t sequence_;
  std::int64_t vocab_size_;
  std::vector<LogitPenalty> penalties_;  // sorted by id
  std::vector<std::int64_t> counts_;     // occurrences in the continuation of penalties_[i].id
  std::uint64_t position_ = 0;           // of the last query
  std::int64_t asked_ = 0;               // candidates a rank; 0: the first time for this position
  bool races_ = false;                   // this position is decided by a race
  CutRace race_;
  Ranking ranking_;  // kept for its memory
};

/// Error(ExitCode::bug) naming sequence, position and the first id if a logit is not finite, or if
/// no id is allowed.
void check_logits(std::span<const LogitReply> by_rank, std::uint64_t sequence,
                  std::uint64_t position);

/// log(sum of exp) of the raw logits over all ranks, in rank order; fails as check_logits() does.
double raw_log_sum_exp(std::span<const LogitReply> by_rank, std::uint64_t sequence,
                       std::uint64_t position);

/// Natural log-softmax of the query's target (LogitQuery::target) from all ranks' replies; fails
/// as check_logits() does, and if no rank has the target among its allowed ids.
double target_logprob(std::span<const LogitReply> by_rank, std::uint64_t sequence,
                      std::uint64_t position);

}  // namespace shardlm
