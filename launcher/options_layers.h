// What is done with the tables: names looked up, and what flags and files say put together.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/options_table.h"

namespace shardlm {

/// The named one, or null.
const CommandTable* find_command(std::span<const CommandTable> tables, std::string_view name);
const OptionSpec* find_option(const CommandTable& table, std::string_view name);

std::vector<std::string> option_names(const CommandTable& table);
/// The sub-commands that have the option.
std::vector<std::string> commands_with(std::span<const CommandTable> tables,
                                       std::string_view option);

/// An option with its words, as a command line or a file gave it.
struct Assignment {
  const OptionSpec* option = nullptr;
  std::vector<std::string> words;
  std::string where;  ///< "--seed", or "demo.yaml:5: seed"
};

/// Stores what the last layer that sets a group says about it: a flag overrides the file, and the
/// lists of the two are not joined. Refuses an option that one layer sets twice.
void store_layers(std::span<const std::vector<Assignment>> weakest_first);

}  // namespace shardlm
