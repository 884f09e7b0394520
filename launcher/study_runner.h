// Runs the launches of a plan, one after another, and keeps what each has measured.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "study/sweep/sweep_plan.h"

namespace shardlm {

struct RunSettings {
  std::optional<double> minutes = {};  ///< from now on, in the place of the study's budget
  bool stop_on_failure = false;
};

struct RunSummary {
  std::size_t finished = 0;  ///< launches, those of earlier runs included
  std::size_t failed = 0;    ///< of them: failed or timed out
  std::size_t left = 0;      ///< launches that were not run: for want of time, or stopped
  std::string why_left = {};
  int signal = 0;  ///< that ended the run; 0: none did
};

/// Runs what the folder does not hold yet, in the plan's order, and says how it goes on standard
/// error. Refuses a folder in which another study runs. A job that an earlier run left behind when
/// it was killed is ended first.
RunSummary run_study(const SweepPlan& plan, const std::filesystem::path& folder,
                     const RunSettings& settings);

}  // namespace shardlm
