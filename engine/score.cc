#include "engine/score.h"

#include <algorithm>
#include <numeric>

#include "engine/sampler.h"

namespace shardlm {
namespace {

// Rows [begin, end) of a window as one step; queries for those that count.
void plan_rows(const ScoreWindow& w, std::int64_t begin, std::int64_t end,
               std::span<const std::int32_t> ids, StepPlan& plan) {
  SequencePlan& s = plan.sequences.at(0);
  s.start = begin - w.begin;
  s.ids.assign(ids.begin() + begin, ids.begin() + end);
  plan.queries.clear();
  for (std::int64_t i = std::max(begin, w.first); i < end; ++i) {
    RowQuery q{.row = static_cast<std::int32_t>(i - begin), .query = {}, .penalties = {}};
    q.query.n_candidates = 0;
    q.query.target = ids[static_cast<std::size_t>(i + 1)];
    plan.queries.push_back(q);
  }
}

}  // namespace

std::vector<ScoreWindow> score_windows(std::int64_t n_ids, const ScoreSetup& setup) {
  std::vector<ScoreWindow> windows;
  const std::int64_t n_inputs = n_ids - 1;  // the last id is only predicted
  std::int64_t predicted = 0;
  for (std::int64_t begin = 0; predicted < n_inputs; begin += setup.stride) {
    const std::int64_t end = std::min(begin + setup.window, n_inputs);
    windows.push_back({begin, end, predicted});
    predicted = end;
  }
  return windows;
}

std::int64_t score_blocks(const ScoreSetup& setup) {
  return (setup.window + setup.block_tokens - 1) / setup.block_tokens;
}

Score score(Coordinator& coordinator, std::span<const std::int32_t> ids, const ScoreSetup& setup) {
  Score total;
  StepPlan plan;
  plan.sequences.resize(1);
  plan.sequences[0].blocks.resize(static_cast<std::size_t>(score_blocks(setup)));
  std::iota(plan.sequences[0].blocks.begin(), plan.sequences[0].blocks.end(), 0);
  for (const ScoreWindow& w : score_windows(static_cast<std::int64_t>(ids.size()), setup)) {
    for (std::int64_t begin = w.begin; begin < w.end; begin += setup.rows_per_step) {
      plan_rows(w, begin, std::min(begin + setup.rows_per_step, w.end), ids, plan);
      const auto& replies = coordinator.run(plan);
      for (std::size_t q = 0; q < plan.queries.size(); ++q) {
        total.nats -=
            target_logprob(replies[q], 0, static_cast<std::uint64_t>(begin + plan.queries[q].row));
      }
      total.tokens += static_cast<std::int64_t>(plan.queries.size());
    }
  }
  return total;
}

}  // namespace shardlm
