// From a study's file to its plan: commands, combinations that cannot run, guesses of time.
#pragma once

#include <string>

#include "study/sweep/launch_words.h"
#include "study/sweep/sweep_plan.h"

namespace shardlm {

/// Of this machine and MPI library.
LauncherFacts launcher_facts();

/// `yaml`: the file's bytes. A cell whose command bench would refuse, and one that cannot be
/// started as `launch` says, are skipped with the reason. `program`: of the commands.
SweepPlan make_plan(const StudySpec& spec, const std::string& yaml, const LauncherFacts& facts,
                    const std::string& program);

/// Of the running program: how it measures; its version and commit.
int current_method_version();
std::vector<std::pair<std::string, std::string>> program_facts();

/// The running program; Error(resources) if the system does not say.
std::string own_program();

/// Cells, commands, order and budget, for people.
std::string plan_text(const SweepPlan& plan, const std::string& folder);

}  // namespace shardlm
