#include "launcher/options_command_line.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>
#include <optional>

#include "base/error.h"
#include "io/printable.h"
#include "launcher/nearest_name.h"

namespace shardlm {
namespace {

constexpr std::string_view kExitCodes =
    "Exit codes: 0 done, 1 a bug or numbers that are not finite, 2 usage or configuration,\n"
    "3 model or tokenizer files, 4 a rank or the network failed, 5 out of memory or device.";

// A flag of the command line: an option, or the --no- form of one.
struct Flag {
  const OptionSpec* option = nullptr;
  bool negated = false;
};

std::optional<Flag> find_flag(const CommandTable& table, std::string_view word) {
  if (!word.starts_with("--")) return std::nullopt;
  word.remove_prefix(2);
  if (const OptionSpec* option = find_option(table, word)) return Flag{option, false};
  if (!word.starts_with("no-")) return std::nullopt;
  const OptionSpec* option = find_option(table, word.substr(3));
  if (!option || !option->negatable) return std::nullopt;
  return Flag{option, true};
}

[[noreturn]] void refuse_missing_value(const OptionSpec& option, const std::string* next) {
  const std::string flag = "--" + option.name;
  fail(ExitCode::usage,
       {.expected = option.value,
        .found = next ? "the flag " + *next : "the end of the command line",
        .where = flag,
        .remedy = next ? fmt::format("write {}={} if that is the value", flag, *next) : ""});
}

const OptionSpec& bare_option(const CommandTable& table, const std::string& word) {
  for (const OptionSpec& option : table.options) {
    if (option.bare == BareWords::any) return option;
    if (option.bare == BareWords::dash && word == "-") return option;
  }
  fail(ExitCode::usage, {.what = "a word that belongs to no flag",
                         .found = in_quotes(word),
                         .where = "shardlm " + table.name,
                         .remedy = "a flag takes one value: repeat the flag, or quote the text"});
}

bool is_bare(const std::string& word) {
  const bool number = word.size() > 1 && word[0] == '-' && word[1] >= '0' && word[1] <= '9';
  return word.size() < 2 || word[0] != '-' || number;
}

// Splits "--name=value" and reads the further words of an option's value from `words`, from i on.
void append_value(const CommandTable& table, const OptionSpec& option,
                  std::span<const std::string> words, std::size_t& i,
                  std::vector<std::string>& plain) {
  const std::string& word = words[i];
  const std::size_t equals = word.find('=');
  plain.push_back(word.substr(0, equals));
  int missing = option.values;
  if (equals != std::string::npos) {
    plain.push_back(word.substr(equals + 1));
    --missing;
  }
  for (; missing > 0; --missing) {
    if (++i == words.size()) refuse_missing_value(option, nullptr);
    if (words[i] == "--help" || find_flag(table, words[i])) refuse_missing_value(option, &words[i]);
    plain.push_back(words[i]);
  }
}

// The words as CLI11 cannot misread them. By itself it takes the next word as the value of
// "--name=", loses "++", and knows no bare word that stands for a flag.
std::vector<std::string> plain_words(const CommandTable& table,
                                     std::span<const std::string> words) {
  std::vector<std::string> plain;
  bool all_bare = false;
  bool all_known = true;  // a bare word after an unknown flag is that flag's value
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (!all_bare && word == "--") {
      all_bare = true;
    } else if (all_bare || is_bare(word)) {
      if (all_known) plain.insert(plain.end(), {"--" + bare_option(table, word).name, word});
    } else if (const auto flag = find_flag(table, word.substr(0, word.find('=')));
               flag && !flag->option->is_switch()) {
      append_value(table, *flag->option, words, i, plain);
    } else {
      all_known = all_known && flag;
      plain.push_back(word);
    }
  }
  return plain;
}

std::string help_line(const OptionSpec& option) {
  if (option.default_text.empty()) return option.help;
  return fmt::format("{} (default {})", option.help, option.default_text);
}

// The parser of one sub-command, and which CLI11 option is which of ours.
struct Parser {
  CLI::App app;
  std::map<const CLI::Option*, Flag> flags;

  explicit Parser(const CommandTable& table)
      : app("shardlm " + table.name + ": " + table.summary, "shardlm " + table.name) {
    app.set_help_flag("-h,--help", "print this help and exit");
    app.allow_extras();
    for (const OptionSpec& option : table.options) add(option);
    app.footer(
        "Every option can stand in the YAML file of --config, under its name without the\n"
        "dashes. docs/cli.md says more.\n" +
        std::string(kExitCodes));
  }

  void add(const OptionSpec& option) {
    const std::string help = help_line(option);
    if (option.is_switch()) {
      keep(app.add_flag("--" + option.name, help), {&option, false});
      if (!option.negatable) return;
      const std::string contrary = "the contrary of --" + option.name;
      keep(app.add_flag("--no-" + option.name, contrary), {&option, true});
      return;
    }
    const auto any_value = [](const CLI::results_t&) { return true; };
    CLI::Option* added = app.add_option("--" + option.name, any_value, help);
    if (option.values > 1) added->type_size(option.values);
    added->option_text(option.value + (option.repeats ? " ..." : ""));
    keep(added, {&option, false});
  }

  void keep(CLI::Option* added, Flag flag) {
    // All words are taken as they come: doubled options are refused with our own words.
    added->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)->allow_extra_args(false);
    if (!flag.option->section.empty()) added->group(flag.option->section);
    flags.emplace(added, flag);
  }
};

Assignment make_assignment(const Flag& flag, std::vector<std::string> words) {
  std::string where = (flag.negated ? "--no-" : "--") + flag.option->name;
  if (flag.negated && words[0] == "true") {
    words[0] = "false";
  } else if (flag.negated) {
    fail(ExitCode::usage, {.expected = "no value",
                           .found = in_quotes(words[0]),
                           .where = where,
                           .remedy = "write --" + flag.option->name});
  }
  return {flag.option, std::move(words), std::move(where)};
}

[[noreturn]] void refuse_flag(std::span<const CommandTable> tables, const CommandTable& table,
                              const std::string& word) {
  const std::string flag = word.substr(0, word.find('='));
  const std::string name = flag.substr(std::min(flag.find_first_not_of('-'), flag.size()));
  std::vector<std::string> names = option_names(table);
  names.emplace_back("help");
  for (const OptionSpec& option : table.options) {
    if (option.negatable) names.push_back("no-" + option.name);
  }
  const std::vector<std::string> others = commands_with(tables, name);
  fail(ExitCode::usage,
       {.what = "unknown option " + printable(flag),
        .where = "shardlm " + table.name,
        .remedy = others.empty() ? suggestion(name, names, "--")
                                 : fmt::format("it is an option of {}; {}", fmt::join(others, ", "),
                                               suggestion(name, names, "--"))});
}

}  // namespace

CommandLine read_command_line(std::span<const CommandTable> tables, const CommandTable& table,
                              std::span<const std::string> words) {
  Parser parser(table);
  std::vector<std::string> reversed = plain_words(table, words);
  std::reverse(reversed.begin(), reversed.end());  // as CLI11 wants them
  try {
    parser.app.parse(reversed);
  } catch (const CLI::CallForHelp&) {
    return {.help = true, .assignments = {}};
  } catch (const CLI::ParseError& error) {
    fail(ExitCode::usage, {.what = error.what(), .where = "shardlm " + table.name});
  }
  const std::vector<std::string> unknown = parser.app.remaining();
  if (!unknown.empty()) refuse_flag(tables, table, unknown.front());

  CommandLine line;
  std::map<const CLI::Option*, std::size_t> used;
  for (const CLI::Option* parsed : parser.app.parse_order()) {
    const auto entry = parser.flags.find(parsed);
    if (entry == parser.flags.end()) continue;
    const std::size_t n = static_cast<std::size_t>(std::max(1, entry->second.option->values));
    const std::size_t at = used[parsed]++;
    if (at % n != 0) continue;  // the second word of an option that was kept with its first
    const auto first = parsed->results().begin() + static_cast<std::ptrdiff_t>(at);
    line.assignments.push_back(
        make_assignment(entry->second, {first, first + static_cast<std::ptrdiff_t>(n)}));
  }
  return line;
}

std::string command_help(const CommandTable& table) { return Parser(table).app.help(); }

std::string overview_help(std::span<const CommandTable> tables) {
  CLI::App app("shardlm: one language model over many processes, by tensor parallelism", "shardlm");
  app.set_help_flag("-h,--help", "print this help and exit");
  app.require_subcommand(1);
  // CLI11 takes no name of two words: another character stands for the blank meanwhile.
  constexpr char kBlank = '\x1f';
  for (const CommandTable& table : tables) {
    std::string name = table.name;
    std::ranges::replace(name, ' ', kBlank);
    app.add_subcommand(name, table.summary);
  }
  app.footer("shardlm COMMAND --help lists the options of a command.\n" + std::string(kExitCodes));
  std::string help = app.help();
  std::ranges::replace(help, kBlank, ' ');
  return help;
}

}  // namespace shardlm
