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

Step Executor::build_step(const StepPlan& plan) {
  ids_.clear();
  positions_.clear();
  sequences_.clear();
  for (const SequencePlan& s : plan.sequences) {
    sequences_.push_back({.first_row = std::ssize(ids_),
                          .n_rows = std::ssize(s.ids),
                          .start = s.start,
                          .blocks = s.blocks});
    ids_.insert(ids_.end(), s.ids.begin(), s.ids.end());
    for (std::int64_t i = 0; i < std::ssize(s.ids); ++i) {
      positions_.push_back(static_cast<std::int32_t>(s.start + i));
    }
  }
  logit_rows_.clear();
  for (const RowQuery& q : plan.queries) logit_rows_.push_back(q.row);
  return {.ids = ids_,
          .positions = positions_,
          .sequences = sequences_,
          .logit_rows = logit_rows_,
          .repeatable = !context_.tap.listening() && context_.comm.recordable()};
}

StepMark Executor::mark_of(const StepPlan& plan) const {
  StepMark mark{static_cast<std::uint64_t>(steps_), Phase::decode, 0};
  for (const SequencePlan& s : plan.sequences) {
    mark.rows += static_cast<std::int32_t>(s.ids.size());
    if (s.ids.size() > 1) mark.phase = Phase::prefill;
  }
  return mark;
}

// Some rows of the last step are asked about again.
Tensor Executor::rows_of_last_step(const StepPlan& plan) {
  asked_rows_.clear();
  for (const RowQuery& q : plan.queries) {
    const auto at = std::lower_bound(logit_rows_.begin(), logit_rows_.end(), q.row);
    asked_rows_.push_back(static_cast<std::int32_t>(at - logit_rows_.begin()));
  }
  const auto n = std::ssize(asked_rows_);
  const std::int32_t first = asked_rows_.front(), last = asked_rows_.back();
  if (last - first == n - 1) return logits_.row_range(first, first + n);  // no copy
  Tensor logits = context_.backend.allocate(n, logits_.cols());
  context_.backend.gather_rows(logits_, asked_rows_, logits);
  return logits;
}

// The caller ends the step.
Tensor Executor::begin_pass(const StepPlan& plan) {
  ++steps_;
  context_.comm.begin_step(mark_of(plan));
  logits_ = Tensor();  // back to the pool before the pass asks for it
  logits_ = context_.backend.run_pass(
      build_step(plan), [this](const Step& step) { return model_.forward(step, cache_); });
  return logits_.row_range(0, std::ssize(plan.queries));
}

Tensor Executor::forward(const StepPlan& plan) {
  const Tensor logits = begin_pass(plan);
  context_.comm.end_step();
  return logits;
}

std::span<const LogitReply> Executor::run(const StepPlan& plan) {
  Tensor logits;
  if (plan.command == Command::step) {
    if (hook_) hook_(steps_);
    logits = begin_pass(plan);
  } else {
    logits = rows_of_last_step(plan);
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
  if (plan.command == Command::step) context_.comm.end_step();
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
