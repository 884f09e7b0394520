#include "engine/executor.h"

#include <algorithm>

namespace shardlm {

Executor::Executor(const Context& context, const Model& model, KvCache cache,
                   std::vector<std::uint8_t> allowed, StepHook hook)
    : context_(context),
      model_(model),
      cache_(std::move(cache)),
      allowed_(std::move(allowed)),
      hook_(std::move(hook)) {}

void Executor::build_step(const StepPlan& plan) {
  step_.ids.clear();
  step_.positions.clear();
  step_.sequences.clear();
  for (const SequencePlan& s : plan.sequences) {
    step_.sequences.push_back({.first_row = static_cast<std::int64_t>(step_.ids.size()),
                               .n_rows = static_cast<std::int64_t>(s.ids.size()),
                               .start = s.start,
                               .blocks = s.blocks});
    step_.ids.insert(step_.ids.end(), s.ids.begin(), s.ids.end());
    for (std::size_t i = 0; i < s.ids.size(); ++i) {
      step_.positions.push_back(static_cast<std::int32_t>(s.start + static_cast<std::int64_t>(i)));
    }
  }
  step_.logit_rows.clear();
  for (const RowQuery& q : plan.queries) step_.logit_rows.push_back(q.row);
}

std::span<const LogitReply> Executor::run(const StepPlan& plan) {
  Tensor logits = logits_;
  if (plan.command == Command::step) {
    if (hook_) hook_(steps_);
    ++steps_;
    build_step(plan);
    logits_ = Tensor();  // back to the pool before the pass asks for it
    logits = logits_ = model_.forward(step_, cache_);
  } else {
    // Only some rows of the last step are asked about again.
    logits =
        context_.backend.allocate(static_cast<std::int64_t>(plan.queries.size()), logits_.cols());
    std::vector<std::int32_t> rows;
    for (const RowQuery& q : plan.queries) {
      const auto at = std::lower_bound(step_.logit_rows.begin(), step_.logit_rows.end(), q.row);
      rows.push_back(static_cast<std::int32_t>(at - step_.logit_rows.begin()));
    }
    context_.backend.gather_rows(logits_, rows, logits);
  }
  queries_.clear();
  for (const RowQuery& q : plan.queries) {
    queries_.push_back(q.query);
    queries_.back().penalties = q.penalties;
  }
  replies_.resize(queries_.size());
  const Range ids = model_.vocab_ids();
  context_.backend.query_logits(
      logits,
      {.begin = static_cast<std::int32_t>(ids.begin),
       .allowed = std::span(allowed_).subspan(static_cast<std::size_t>(ids.begin),
                                              static_cast<std::size_t>(ids.size()))},
      queries_, replies_);
  return replies_;
}

int serve(Communicator& comm, Executor& executor) {
  std::vector<std::byte> message, answer;
  std::vector<std::vector<std::byte>> unused;
  StepPlan plan;
  while (true) {
    comm.broadcast({SiteKind::step}, message, 0);
    read_plan(message, plan);
    if (plan.command == Command::stop) return plan.exit_code;
    write_replies(executor.run(plan), answer);
    comm.gather({SiteKind::lm_head}, answer, unused, 0);
  }
}

}  // namespace shardlm
