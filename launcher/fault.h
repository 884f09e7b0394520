// Fault injection for tests:
// SHARDLM_FAULT=rank=R,stage=load|forward|token:N|end,action=throw|kill|stop|hang|exit makes one
// rank fail at a stage (docs/testing.md).
#pragma once

#include <cstdint>
#include <string>

#include "engine/executor.h"

namespace shardlm {

class Fault {
 public:
  /// The fault that the environment asks of this rank; none if it asks for none. A text that does
  /// not parse is an Error(usage).
  static Fault from_environment(int rank);
  static Fault parse(const std::string& text, int rank);

  void at_load() const;
  /// The work is done, and the ranks are about to end together.
  void at_end() const;
  /// Strikes before forward pass N (stage forward: N = 0); empty if no pass is meant.
  StepHook step_hook() const;

 private:
  enum class Action { none, fail, kill, stop, hang, exit };
  enum class Stage { load, step, end };
  void strike() const;

  Action action_ = Action::none;
  Stage stage_ = Stage::load;
  std::int64_t step_ = 0;
};

}  // namespace shardlm
