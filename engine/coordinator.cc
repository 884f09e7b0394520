#include "engine/coordinator.h"

namespace shardlm {

const std::vector<std::vector<LogitReply>>& Coordinator::run(const StepPlan& plan) {
  in_step_ = true;
  write_plan(plan, message_);
  comm_.broadcast({SiteKind::step}, message_, 0);
  write_replies(executor_.run(plan), message_);
  comm_.gather({SiteKind::lm_head}, message_, answers_, 0);
  const auto n_ranks = static_cast<std::size_t>(comm_.size());
  replies_.resize(plan.queries.size());
  for (auto& of_ranks : replies_) of_ranks.resize(n_ranks);
  for (std::size_t r = 0; r < n_ranks; ++r) {
    read_replies(answers_[r], rank_replies_);
    check(rank_replies_.size() == plan.queries.size(), "a rank answered another number of queries");
    for (std::size_t q = 0; q < rank_replies_.size(); ++q)
      std::swap(replies_[q][r], rank_replies_[q]);
  }
  in_step_ = false;
  if (after_step_ && plan.command == Command::step) after_step_();
  return replies_;
}

void Coordinator::stop(int exit_code) {
  write_plan({.command = Command::stop, .exit_code = exit_code, .sequences = {}, .queries = {}},
             message_);
  comm_.broadcast({SiteKind::step}, message_, 0);
}

}  // namespace shardlm
