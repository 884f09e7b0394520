#include "engine/scheduler.h"

#include <algorithm>

#include "base/error.h"

namespace shardlm {

Scheduler::Scheduler(std::vector<Sequence>& sequences, KvAllocator& cache,
                     const SchedulerLimits& limits)
    : cache_(cache), limits_(limits) {
  for (Sequence& s : sequences) {
    if (s.limit() > 0) {
      waiting_.push_back(&s);
    } else {
      s.finish_empty();
    }
  }
}

void Scheduler::admit() {
  while (!waiting_.empty() && static_cast<std::int64_t>(running_.size()) < limits_.max_batch &&
         cache_.can_reserve(waiting_.front()->most_cached())) {
    Sequence* s = waiting_.front();
    waiting_.pop_front();
    s->blocks = cache_.allocate(s->most_cached());
    running_.push_back(s);
  }
}

void Scheduler::next(StepPlan& plan, std::vector<Sequence*>& asked) {
  admit();
  plan.command = Command::step;
  plan.queries.clear();
  asked.clear();
  std::int64_t prompt_budget = limits_.prefill_chunk;
  std::int64_t row = 0;
  std::size_t n_parts = 0;  // the plan's parts keep their memory from step to step
  for (Sequence* s : running_) {
    const std::int64_t left = s->n_tokens() - s->n_cached;
    const bool decoding = s->n_cached >= s->n_prompt();
    const std::int64_t take = decoding ? left : std::min(left, prompt_budget);
    if (take == 0) continue;
    if (!decoding) prompt_budget -= take;
    if (n_parts == plan.sequences.size()) plan.sequences.emplace_back();
    SequencePlan& part = plan.sequences[n_parts++];
    part.start = s->n_cached;
    part.ids.clear();
    part.blocks = s->blocks;
    for (std::int64_t i = 0; i < take; ++i) part.ids.push_back(s->token(s->n_cached + i));
    s->n_cached += take;
    row += take;
    if (s->n_cached == s->n_tokens()) {
      plan.queries.push_back(
          {.row = static_cast<std::int32_t>(row - 1), .query = {}, .penalties = {}});
      asked.push_back(s);
    }
  }
  plan.sequences.resize(n_parts);
  check(row > 0, "the scheduler made an empty step");
}

void Scheduler::retire_finished() {
  std::erase_if(running_, [this](Sequence* s) {
    if (!s->finish()) return false;
    cache_.release(s->blocks);
    s->blocks.clear();
    return true;
  });
}

}  // namespace shardlm
