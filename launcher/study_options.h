// The option tables of study and launch.
#pragma once

#include "launcher/options_table.h"

namespace shardlm {

CommandTable study_plan_command(StudyPlanOptions& o);
CommandTable study_run_command(StudyRunOptions& o);
CommandTable study_resume_command(StudyResumeOptions& o);
CommandTable study_report_command(StudyReportOptions& o);
CommandTable study_compare_command(StudyCompareOptions& o);
CommandTable launch_command(LaunchOptions& o);

}  // namespace shardlm
