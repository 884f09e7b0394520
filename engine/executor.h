// What one rank does with a step plan: the same code on the coordinator and on the workers.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "engine/step_plan.h"
#include "model/model.h"

namespace shardlm {

/// Called before each forward pass with its number (0, 1, …): where tests inject faults.
using StepHook = std::function<void(std::int64_t step)>;

class Executor {
 public:
  /// `allowed`: one byte for each id of the whole vocabulary, 0 = never sampled.
  Executor(const Context& context, const Model& model, KvCache cache,
           std::vector<std::uint8_t> allowed, StepHook hook = {});

  /// Runs the plan's forward pass (or, with Command::ask, takes the last one's logits) and answers
  /// its queries about this rank's part of the vocabulary, in their order.
  std::span<const LogitReply> run(const StepPlan& plan);

  /// The plan's forward pass alone: this rank's logits [rows asked about, local ids], which hold
  /// until the next pass. On all ranks together.
  Tensor forward(const StepPlan& plan);

 private:
  StepMark mark_of(const StepPlan& plan) const;
  Step build_step(const StepPlan& plan);
  Tensor begin_pass(const StepPlan& plan);
  Tensor rows_of_last_step(const StepPlan& plan);

  const Context& context_;
  const Model& model_;
  KvCache cache_;
  std::vector<std::uint8_t> allowed_;
  StepHook hook_;
  std::int64_t steps_ = 0;
  // Kept from step to step for their capacity; a Step views them.
  std::vector<std::int32_t> ids_, positions_, logit_rows_, asked_rows_;
  std::vector<SequenceRows> sequences_;
  Tensor logits_;  // [logit_rows_, local ids]
  std::vector<LogitQuery> queries_;
  std::vector<LogitReply> replies_;
};

/// A worker's life: takes plans from rank 0 until it is told to stop; returns the exit code.
int serve(Communicator& comm, Executor& executor);

}  // namespace shardlm
