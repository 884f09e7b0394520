// The commands that know the engine, one file each. Those that take a job run on every rank.
#pragma once

#include <iosfwd>

#include "launcher/options.h"
#include "launcher/session.h"

namespace shardlm {

int run_generate(const GenerateOptions& options, const Job& job);
int run_score(const ScoreOptions& options, const Job& job);
int run_dump(const DumpOptions& options, const Job& job);
int run_bench(const BenchOptions& options, const Job& job);
int run_coll(const CollOptions& options, const Job& job);
int run_tune(const TuneOptions& options, const Job& job);
int run_calibrate(const CalibrateOptions& options, const Job& job);
/// What of the options decides which calls a rank makes: " --shape gpt2 --prompt 128 …".
std::string bench_text(const BenchOptions& options);
std::string coll_text(const CollOptions& options);
/// The exit code is 0, or that with which a job of these options would end.
int run_doctor(const DoctorOptions& options, const Job& job);

/// 0 if nothing differs beyond the tolerance, else 1, as diff(1) does.
int run_dump_diff(const DumpOptions& options, std::ostream& out);
void run_plan(const PlanOptions& options, std::ostream& out);
void run_predict(const PredictOptions& options, std::ostream& out);

}  // namespace shardlm
