// Which tokens of which sequences make up the next step.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "engine/kv_allocator.h"
#include "engine/sequence.h"
#include "engine/step_plan.h"

namespace shardlm {

struct SchedulerLimits {
  std::int64_t prefill_chunk = 512;  ///< prompt tokens in a step, over all sequences
  std::int64_t max_batch = 64;       ///< sequences in progress at once
};

/// Continuous batching: every sequence in progress that has its prompt behind it decodes one token
/// in each step; the prompts of the others fill the step up to the chunk, first come first served.
/// A sequence enters when there is room in the batch and in the cache for all that it may need, so
/// that none ever has to leave early.
class Scheduler {
 public:
  /// The sequences outlive the scheduler and are admitted in their order.
  Scheduler(std::vector<Sequence>& sequences, KvAllocator& cache, const SchedulerLimits& limits);

  bool done() const { return waiting_.empty() && running_.empty(); }
  /// Fills `plan` with the next step; sequences[i] answers plan.queries[i].
  void next(StepPlan& plan, std::vector<Sequence*>& asked);
  /// Frees the blocks of sequences that have finished.
  void retire_finished();

 private:
  void admit();

  KvAllocator& cache_;
  SchedulerLimits limits_;
  std::deque<Sequence*> waiting_;
  std::vector<Sequence*> running_;
};

}  // namespace shardlm
