// The sub-commands of study, and launch: each is one process, which starts the jobs itself.
#pragma once

#include <iosfwd>

#include "launcher/options.h"

namespace shardlm {

/// The exit code: 0; 4 if no launch has worked, or if --stop-on-failure ended the run.
int run_study_plan(const StudyPlanOptions& options, std::ostream& out);
int run_study_run(const StudyRunOptions& options, std::ostream& out);
int run_study_resume(const StudyResumeOptions& options, std::ostream& out);
int run_study_report(const StudyReportOptions& options, std::ostream& out);
int run_study_compare(const StudyCompareOptions& options, std::ostream& out);
int run_launch(const LaunchOptions& options, std::ostream& out);

/// Writes the report of a study's folder; the file's path.
std::string write_study_report(const std::string& folder, const std::string& file);

}  // namespace shardlm
