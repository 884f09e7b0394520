#include "launcher/options.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "base/error.h"
#include "io/printable.h"
#include "launcher/config_file.h"
#include "launcher/nearest_name.h"
#include "launcher/options_check.h"
#include "launcher/options_command_line.h"

namespace shardlm {
namespace {

// The command that the first word names, or the first two ("bench coll").
const CommandTable& named_command(std::span<const CommandTable> tables,
                                  std::span<const std::string> words) {
  if (words.size() > 1) {
    if (const auto* table = find_command(tables, words[0] + " " + words[1])) return *table;
  }
  const std::string& name = words[0];
  if (const CommandTable* table = find_command(tables, name)) return *table;
  std::vector<std::string> names;
  for (const CommandTable& table : tables) names.push_back(table.name);
  if (name.starts_with("-")) {
    fail(ExitCode::usage,
         {.expected = fmt::format("a sub-command first ({})", fmt::join(names, ", ")),
          .found = printable(name),
          .where = "shardlm"});
  }
  std::vector<std::string> longer;
  std::ranges::copy_if(names, std::back_inserter(longer),
                       [&](const std::string& known) { return known.starts_with(name + " "); });
  if (!longer.empty()) {
    fail(ExitCode::usage, {.expected = fmt::format("{}", fmt::join(longer, ", ")),
                           .found = words.size() > 1 ? printable(words[1]) : "nothing",
                           .where = "shardlm " + name});
  }
  fail(ExitCode::usage, {.what = "unknown sub-command " + printable(name),
                         .where = "shardlm",
                         .remedy = suggestion(name, names, "")});
}

std::string unused_note(const std::string& config, const CommandTable& table,
                        const std::vector<std::string>& unused) {
  return fmt::format("{}: no options of {}, so of no effect here: {}", config, table.name,
                     fmt::join(unused, ", "));
}

// Moves the named command's options out of the set.
Options take(CommandSet&& set, const std::string& name) {
  Options options;
  const auto keep = [&](std::string_view command, auto& of_command) {
    if (command != name) return;
    check_complete(of_command);
    options.command = std::move(of_command);
  };
  keep("generate", set.generate);
  keep("score", set.score);
  keep("tokenize", set.tokenize);
  keep("detokenize", set.detokenize);
  keep("plan", set.plan);
  keep("dump", set.dump);
  keep("doctor", set.doctor);
  keep("bench", set.bench);
  keep("bench coll", set.coll);
  keep("tune", set.tune);
  keep("calibrate", set.calibrate);
  keep("predict", set.predict);
  keep("study plan", set.study_plan);
  keep("study run", set.study_run);
  keep("study resume", set.study_resume);
  keep("study report", set.study_report);
  keep("study compare", set.study_compare);
  keep("launch", set.launch);
  keep("version", set.version);
  return options;
}

const std::string* config_of(const std::vector<Assignment>& assignments) {
  for (const Assignment& assignment : assignments) {
    if (assignment.option->name == "config") return &assignment.words[0];
  }
  return nullptr;
}

}  // namespace

SharedOptions shared_options(const Options& options) {
  return std::visit(
      [](const auto& command) {
        if constexpr (requires { command.shared; }) {
          return command.shared;
        } else {
          return SharedOptions{};
        }
      },
      options.command);
}

Options parse_options(int argc, const char* const* argv) {
  std::vector<std::string> words;
  for (int i = 1; i < argc; ++i) words.emplace_back(argv[i]);
  CommandSet set;
  const std::vector<CommandTable> tables = command_tables(set);
  if (words.empty()) {
    fail(ExitCode::usage, {.expected = "a sub-command",
                           .found = "nothing",
                           .where = "shardlm",
                           .remedy = "shardlm --help lists them"});
  }
  if (words[0] == "--help" || words[0] == "-h") return {HelpText{overview_help(tables)}, {}};

  const CommandTable& table = named_command(tables, words);
  const auto words_of_name = static_cast<std::size_t>(1 + std::ranges::count(table.name, ' '));
  CommandLine line = read_command_line(tables, table, std::span(words).subspan(words_of_name));
  if (line.help) return {HelpText{command_help(table)}, {}};

  const std::string* const named = config_of(line.assignments);
  const std::string config = named ? *named : "";
  ConfigFile file;
  if (named) file = read_config_file(config, tables, table);
  const std::vector<Assignment> layers[] = {std::move(file.top), std::move(file.section),
                                            std::move(line.assignments)};
  store_layers(layers);
  Options options = take(std::move(set), table.name);
  if (!file.unused.empty()) options.notes.push_back(unused_note(config, table, file.unused));
  return options;
}

}  // namespace shardlm
