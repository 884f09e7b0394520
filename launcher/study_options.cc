#include "launcher/study_options.h"

#include "base/error.h"
#include "launcher/options_check.h"
#include "launcher/options_parts.h"

namespace shardlm {
namespace {

OptionSpec study_option(std::string value, std::string help, std::string& target) {
  return bare(BareWords::any, path_option("study", std::move(value), std::move(help), target));
}

OptionSpec minutes_option(std::optional<double>& target) {
  OptionSpec option =
      value_option("minutes", "X", "in the place of the study's budget", ValueKind::number);
  option.store = [&target](Words words, const std::string& where) {
    target = parse_seconds(words[0], where);
  };
  return option;
}

OptionSpec by_option(std::optional<LaunchSpec::By>& target) {
  OptionSpec option = value_option("by", "mpirun|srun", "starts the jobs, whatever the study says",
                                   ValueKind::choice);
  option.store = [&target](Words words, const std::string& where) {
    target = static_cast<LaunchSpec::By>(parse_choice(words[0], {"mpirun", "srun"}, where));
  };
  return option;
}

OptionSpec stop_option(bool& target) {
  return switch_option("stop-on-failure", "end at the first job that fails", target);
}

OptionSpec folder_option(std::string& target) {
  return path_option("out", "DIR", "the study's folder; else as it says itself", target);
}

constexpr const char* kFileHelp = "the study; a word without a flag is this too";
constexpr const char* kFolderHelp = "its folder or file; a word without a flag is this too";

void need(bool given, const std::string& command, const std::string& expected) {
  if (given) return;
  fail(ExitCode::usage, {.expected = expected,
                         .found = "none",
                         .where = "shardlm " + command,
                         .remedy = "shardlm " + command + " --help lists the options"});
}

}  // namespace

CommandTable study_plan_command(StudyPlanOptions& o) {
  return command(
      "study plan", "what a study would run, and how long it would take",
      {section("Study", {study_option("FILE", kFileHelp, o.study.path), folder_option(o.study.out),
                         minutes_option(o.study.minutes), by_option(o.study.by)}),
       shared_table(o.shared)});
}

CommandTable study_run_command(StudyRunOptions& o) {
  return command("study run", "run a study: every cell a job, several times, in random order",
                 {section("Study", {study_option("FILE", kFileHelp, o.study.path),
                                    folder_option(o.study.out), minutes_option(o.study.minutes),
                                    by_option(o.study.by), stop_option(o.stop_on_failure)}),
                  shared_table(o.shared)});
}

CommandTable study_resume_command(StudyResumeOptions& o) {
  return command(
      "study resume", "go on with a study that was ended or killed",
      {section("Study", {study_option("DIR", kFolderHelp, o.study.path), folder_option(o.study.out),
                         minutes_option(o.study.minutes), stop_option(o.stop_on_failure)}),
       shared_table(o.shared)});
}

CommandTable study_report_command(StudyReportOptions& o) {
  return command(
      "study report", "one HTML file of all that a study has measured",
      {section("Study",
               {study_option("DIR", kFolderHelp, o.study.path),
                path_option("out", "FILE", "the report; else report.html in the study's folder",
                            o.study.out)}),
       shared_table(o.shared)});
}

CommandTable study_compare_command(StudyCompareOptions& o) {
  OptionSpec folders = value_option(
      "folder", "DIR", "of a study; two of them, words without a flag too", ValueKind::path);
  folders.store = [&o](Words words, const std::string&) { o.folders.push_back(words[0]); };
  return command("study compare", "two studies of the same cells: faster, slower, no difference",
                 {section("Study", {bare(BareWords::any, repeating(std::move(folders)))}),
                  shared_table(o.shared)});
}

CommandTable launch_command(LaunchOptions& o) {
  OptionSpec print =
      value_option("print", "slurm|hostfile|rankfile", "which file to write", ValueKind::choice);
  print.store = [&o](Words words, const std::string& where) {
    o.print =
        static_cast<LaunchFile>(parse_choice(words[0], {"slurm", "hostfile", "rankfile"}, where));
  };
  return command("launch", "files for job systems and launchers, from a study",
                 {section("Launch", {std::move(print), study_option("FILE", kFileHelp, o.path)}),
                  shared_table(o.shared)});
}

void check_complete(const StudyPlanOptions& o) {
  need(!o.study.path.empty(), "study plan", "a study's YAML file");
}
void check_complete(const StudyRunOptions& o) {
  need(!o.study.path.empty(), "study run", "a study's YAML file");
}
void check_complete(const StudyResumeOptions& o) {
  need(!o.study.path.empty(), "study resume", "a study's folder or file");
}
void check_complete(const StudyReportOptions& o) {
  need(!o.study.path.empty(), "study report", "a study's folder or file");
}
void check_complete(const StudyCompareOptions& o) {
  need(o.folders.size() == 2, "study compare", "two folders of studies");
}
void check_complete(const LaunchOptions& o) {
  need(o.print.has_value(), "launch", "--print slurm, hostfile or rankfile");
  need(!o.path.empty(), "launch", "a study's YAML file");
}

}  // namespace shardlm
