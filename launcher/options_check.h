// What a sub-command cannot run without, and options that contradict each other.
#pragma once

#include "launcher/options.h"

namespace shardlm {

// Each throws Error(usage) that names the option.
void check_complete(const GenerateOptions& options);
void check_complete(const ScoreOptions& options);
void check_complete(const TokenizeOptions& options);
void check_complete(const DetokenizeOptions& options);
void check_complete(const PlanOptions& options);
void check_complete(const DumpOptions& options);
void check_complete(const DoctorOptions& options);
void check_complete(const BenchOptions& options);
void check_complete(const CollOptions& options);
void check_complete(const TuneOptions& options);
void check_complete(const CalibrateOptions& options);
void check_complete(const PredictOptions& options);
void check_complete(const StudyPlanOptions& options);
void check_complete(const StudyRunOptions& options);
void check_complete(const StudyResumeOptions& options);
void check_complete(const StudyReportOptions& options);
void check_complete(const StudyCompareOptions& options);
void check_complete(const LaunchOptions& options);
void check_complete(const VersionOptions& options);

}  // namespace shardlm
