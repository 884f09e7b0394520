#include "launcher/study_command.h"

#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <ostream>

#include "base/error.h"
#include "base/log.h"
#include "launcher/errors.h"
#include "launcher/launch_files.h"
#include "launcher/output.h"
#include "launcher/stop_signal.h"
#include "launcher/study_file.h"
#include "launcher/study_plan.h"
#include "launcher/study_runner.h"
#include "launcher/text_input.h"
#include "study/sweep/cells_file.h"

namespace shardlm {
namespace {

namespace fs = std::filesystem;

struct PlannedStudy {
  std::string yaml;
  StudySpec spec;
  SweepPlan plan;
  fs::path folder;
};

fs::path folder_of(const StudySpec& spec, const std::string& out) {
  if (!out.empty()) return out;
  return spec.output_dir.empty() ? fs::path("study-" + spec.name) : fs::path(spec.output_dir);
}

PlannedStudy planned(const StudyTarget& target) {
  PlannedStudy study;
  study.yaml = read_file(target.path);
  study.spec = parse_study(study.yaml, target.path);
  if (target.by) study.spec.launch.by = *target.by;
  if (target.minutes) study.spec.budget_minutes = *target.minutes;
  const std::string program =
      study.spec.launch.program.empty() ? own_program() : study.spec.launch.program;
  study.plan = make_plan(study.spec, study.yaml, launcher_facts(), program);
  study.folder = folder_of(study.spec, target.out);
  return study;
}

// The folder that is meant by itself or by the study's file; `yaml` becomes the file's bytes.
fs::path existing_folder(const StudyTarget& target, const std::string& out, std::string& yaml) {
  if (fs::is_directory(target.path)) return target.path;
  yaml = read_file(target.path);
  return folder_of(parse_study(yaml, target.path), out);
}

void begin_folder(const PlannedStudy& study) {
  std::error_code error;
  fs::create_directories(study.folder, error);
  if (error) {
    fail(ExitCode::resources,
         {.what = "cannot be made: " + error.message(), .where = study.folder.string()});
  }
  if (fs::exists(study.folder / "plan.json") || fs::exists(study.folder / "cells.jsonl")) {
    fail(ExitCode::usage,
         {.what = "holds a study already",
          .where = study.folder.string(),
          .remedy = fmt::format("go on with it (shardlm study resume {}), or give --out DIR",
                                study.folder.string())});
  }
  write_whole_file(study.folder / "study.yaml", study.yaml);
  write_whole_file(study.folder / "plan.json", plan_json(study.plan).dump(1) + '\n');
}

// Results are never mixed: of another file, of another way of measuring.
void check_same(const SweepPlan& plan, const fs::path& folder, const std::string& yaml) {
  const auto refuse = [&](const std::string& what, const std::string& where) {
    fail(ExitCode::usage,
         {.what = what, .where = where, .remedy = "run the study anew, into another folder"});
  };
  if (!yaml.empty() && text_hash(yaml) != plan.yaml_hash) {
    refuse("the study's file has changed since it was begun", folder.string());
  }
  if (text_hash(read_file((folder / "study.yaml").string())) != plan.yaml_hash) {
    refuse("was changed since the study was begun", (folder / "study.yaml").string());
  }
  if (plan.method_version != current_method_version()) {
    refuse(fmt::format("begun by method {} of measuring, this program has {}", plan.method_version,
                       current_method_version()),
           folder.string());
  }
  for (const auto& [key, value] : program_facts()) {
    for (const auto& [old_key, old_value] : plan.made_by) {
      if (key == old_key && value != old_value) {
        log::warning(fmt::format("the study was begun by {} {}, and goes on with {}", key,
                                 old_value, value));
      }
    }
  }
}

void say_end(const SweepPlan& plan, const fs::path& folder, const RunSummary& summary,
             const std::string& report, std::ostream& out) {
  out << fmt::format("study {}: {} of {} jobs done, {} failed\n", plan.study, summary.finished,
                     plan.order.size(), summary.failed);
  if (summary.left > 0) {
    out << fmt::format("{} jobs were not run: {}\n", summary.left, summary.why_left);
    out << fmt::format("go on with: shardlm study resume {}\n", folder.string());
  }
  if (!report.empty()) out << "report: " << report << '\n';
}

nlohmann::ordered_json summary_json(const SweepPlan& plan, const fs::path& folder,
                                    const RunSummary& summary, const std::string& report) {
  return {{"study", plan.study},          {"folder", folder.string()}, {"jobs", plan.order.size()},
          {"done", summary.finished},     {"failed", summary.failed},  {"left", summary.left},
          {"why_left", summary.why_left}, {"report", report}};
}

// The report's file; empty if there is none.
std::string report_at_the_end(const SweepPlan& plan, const fs::path& folder,
                              const RunSummary& summary) {
  std::string file;
  if (!plan.report || summary.signal != 0 || summary.finished == summary.failed) return file;
  const auto error = caught([&] { file = write_study_report(folder.string(), ""); });
  if (error) log::warning(error->what());  // what was measured is kept all the same
  return file;
}

int execute(const SweepPlan& plan, const fs::path& folder, const RunSettings& settings, bool json,
            std::ostream& out) {
  const RunSummary summary = run_study(plan, folder, settings);
  const std::string report = report_at_the_end(plan, folder, summary);
  if (json) {
    out << summary_json(plan, folder, summary, report).dump() << '\n';
  } else {
    say_end(plan, folder, summary, report, out);
  }
  finish_output(out);
  if (summary.signal != 0) StopSignal::obey();
  const bool stopped = settings.stop_on_failure && summary.failed > 0;
  const bool nothing = summary.finished > 0 && summary.failed == summary.finished;
  return stopped || nothing ? static_cast<int>(ExitCode::peer) : 0;
}

}  // namespace

int run_study_plan(const StudyPlanOptions& options, std::ostream& out) {
  const PlannedStudy study = planned(options.study);
  if (options.shared.json) {
    out << plan_json(study.plan).dump() << '\n';
  } else {
    out << plan_text(study.plan, study.folder.string());
  }
  return 0;
}

int run_study_run(const StudyRunOptions& options, std::ostream& out) {
  const PlannedStudy study = planned(options.study);
  begin_folder(study);
  log::info(fmt::format("study {} into {}", study.plan.study, study.folder.string()));
  for (const Cell& cell : study.plan.cells) {
    if (cell.runs()) continue;
    log::info(fmt::format("skips {} ({}): {}", cell.id, factors_text(cell.factors), cell.skipped));
  }
  return execute(study.plan, study.folder, {.stop_on_failure = options.stop_on_failure},
                 options.shared.json, out);
}

int run_study_resume(const StudyResumeOptions& options, std::ostream& out) {
  std::string yaml;
  const fs::path folder = existing_folder(options.study, options.study.out, yaml);
  const SweepPlan plan = read_plan(folder);
  check_same(plan, folder, yaml);
  return execute(plan, folder,
                 {.minutes = options.study.minutes, .stop_on_failure = options.stop_on_failure},
                 options.shared.json, out);
}

int run_study_report(const StudyReportOptions& options, std::ostream& out) {
  std::string yaml;
  const fs::path folder = existing_folder(options.study, "", yaml);
  const std::string file = write_study_report(folder.string(), options.study.out);
  out << (options.shared.json ? nlohmann::json{{"report", file}}.dump() : file) << '\n';
  return 0;
}

int run_launch(const LaunchOptions& options, std::ostream& out) {
  const StudySpec spec = read_study_file(options.path);
  const std::string text = launch_file(*options.print, spec, options.path);
  out << (options.shared.json ? nlohmann::json{{"text", text}}.dump() + '\n' : text);
  return 0;
}

}  // namespace shardlm
