// The tables of all options: the command line, the configuration file, the help texts and the test
// of docs/cli.md are driven by them, so that nothing can be in one and not in the others.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/options.h"

namespace shardlm {

/// How the value of an option is written.
enum class ValueKind { switch_, text, path, number, choice, ids, list };

/// Which words of the command line that are no flags stand for an option.
enum class BareWords { none, dash, any };

struct OptionSpec {
  std::string name = {};   ///< "max-tokens": the flag without its dashes, the key in a file
  std::string value = {};  ///< "N"; empty for a switch
  std::string help = {};
  ValueKind kind = ValueKind::text;
  std::string default_text = {};  ///< "128"; empty: none
  std::string section = {};       ///< heading in the help text
  /// Stores one value (two for `values` = 2); `where` names the flag, or file, line and key.
  std::function<void(std::span<const std::string> words, const std::string& where)> store = {};
  int values = 1;          ///< words after the flag; 0 for a switch
  bool repeats = false;    ///< may be given several times; a list in a file
  bool negatable = false;  ///< a switch with a --no-NAME
  BareWords bare = BareWords::none;
  std::string group = {};  ///< options that stand for one setting share a group; else the name

  bool is_switch() const { return kind == ValueKind::switch_; }
};

struct CommandTable {
  std::string name;  ///< "generate"
  std::string summary;
  std::vector<OptionSpec> options;
};

/// The options of every sub-command.
struct CommandSet {
  GenerateOptions generate;
  ScoreOptions score;
  TokenizeOptions tokenize;
  DetokenizeOptions detokenize;
  PlanOptions plan;
  DumpOptions dump;
  DoctorOptions doctor;
  BenchOptions bench;
  CollOptions coll;
  TuneOptions tune;
  CalibrateOptions calibrate;
  PredictOptions predict;
  StudyPlanOptions study_plan;
  StudyRunOptions study_run;
  StudyResumeOptions study_resume;
  StudyReportOptions study_report;
  StudyCompareOptions study_compare;
  LaunchOptions launch;
  VersionOptions version;
};

/// The tables in the order of the help text. They store into `set`, which must outlive them.
std::vector<CommandTable> command_tables(CommandSet& set);

}  // namespace shardlm
