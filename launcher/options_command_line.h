// The words of the command line read through CLI11, and the help texts that it prints.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "launcher/options_layers.h"

namespace shardlm {

struct CommandLine {
  bool help = false;                    ///< --help or -h: nothing else counts
  std::vector<Assignment> assignments;  ///< in the order given
};

/// `words`: what follows the sub-command. Values are kept byte for byte: "--name value" and
/// "--name=value" say the same, values may begin with a dash, be empty, and hold any commas. Error
/// (usage) for unknown flags, abbreviations, missing values and words that stand for nothing.
CommandLine read_command_line(std::span<const CommandTable> tables, const CommandTable& table,
                              std::span<const std::string> words);

/// The text of `shardlm COMMAND --help`.
std::string command_help(const CommandTable& table);
/// The text of `shardlm --help`.
std::string overview_help(std::span<const CommandTable> tables);

}  // namespace shardlm
