// Rank 0's side of the step protocol: broadcast a plan, take part in it, collect the answers.
#pragma once

#include <functional>
#include <utility>
#include <vector>

#include "engine/executor.h"

namespace shardlm {

class Coordinator {
 public:
  Coordinator(Communicator& comm, Executor& executor) : comm_(comm), executor_(executor) {}

  /// Runs the plan on all ranks: replies[q][r] is rank r's answer to query q. Valid until the next
  /// call.
  const std::vector<std::vector<LogitReply>>& run(const StepPlan& plan);

  /// Ends the workers' loops with this exit code. Nothing may follow.
  void stop(int exit_code);

  /// Calls `told` after each step.
  void after_steps(std::function<void()> told) { after_step_ = std::move(told); }

  /// True while the workers are inside a step: an error that leaves run() cannot be told to them
  /// by stop().
  bool in_step() const { return in_step_; }

 private:
  Communicator& comm_;
  Executor& executor_;
  bool in_step_ = false;
  std::function<void()> after_step_;
  std::vector<std::byte> message_;
  std::vector<std::vector<std::byte>> answers_;
  std::vector<LogitReply> rank_replies_;
  std::vector<std::vector<LogitReply>> replies_;
};

}  // namespace shardlm
