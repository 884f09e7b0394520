// A draw from an id set too large to list: top-p or min-p over a flat distribution.
//
// The ids race by logit / temperature + noise over the whole vocabulary; the ranks send the few
// that lead. The draw is the first of them that the cuts keep. Whether top-p keeps an id follows
// from the mass of the ids before it in the order of the logits: where that is not known yet, the
// ranks are asked for it. An id that is kept (cut) settles all before (behind) it in that order.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "engine/cuts.h"
#include "engine/sampling.h"

namespace shardlm {

class CutRace {
 public:
  /// Forgets the runners and what was learnt about the cuts. Temperature above 0, no top-k.
  void restart(const SamplingParams& params);

  /// Turns the query about the runners into one about bounds, if such are to be asked about.
  void add_bounds(LogitQuery& query) const;
  bool asks_bounds() const { return !bounds_.empty(); }

  /// The replies to the last query, `asked` runners a rank. None: bounds are to be asked about, or,
  /// if not, more runners.
  std::optional<Candidate> winner(std::span<const LogitReply> by_rank, std::int64_t asked,
                                  std::int64_t vocab_size);

  /// How many ids top-p keeps at least, by the last race since restart(); 0: there was none.
  std::int64_t kept_at_least() const { return kept_at_least_; }

 private:
  void learn_masses(std::span<const LogitReply> by_rank);
  std::optional<bool> is_kept(const Candidate& runner) const;
  std::optional<Candidate> first_kept();

  SamplingParams params_;
  Ranking runners_;                 // by noise
  double best_ = 0;                 // the largest logit / temperature of all ids
  double wanted_ = 0;               // the mass that top-p asks for, that of best_ being 1
  std::vector<LogitBound> bounds_;  // asked about now
  std::optional<LogitBound> last_kept_, first_cut_;  // in the order of logits, as far as known
  std::int64_t kept_at_least_ = 0;
};

}  // namespace shardlm
