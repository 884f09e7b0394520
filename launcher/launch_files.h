// What job systems and launchers read, from the file of a study.
#pragma once

#include <string>

#include "launcher/options.h"
#include "study/sweep/study_spec.h"

namespace shardlm {

/// slurm: a whole sbatch script that runs the study, a step a job. hostfile, rankfile: of Open
/// MPI, for the cell with the most nodes and ranks. `path`: the study's file. Error(usage) if the
/// study names fewer hosts than such a file needs.
std::string launch_file(LaunchFile file, const StudySpec& spec, const std::string& path);

}  // namespace shardlm
