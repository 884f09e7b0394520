// The YAML file of --config. Its keys are the names of the flags; a key at the top goes to every
// sub-command that has the option, and a map under a sub-command's name goes to that one alone and
// overrides the top:
//
//   model: ../models/demo     # relative paths start at the file's own folder
//   threads: 2
//   generate:
//     prompt: [Once upon a time, "The King said:"]
//     max-tokens: 64
#pragma once

#include <span>
#include <string>
#include <vector>

#include "launcher/options_layers.h"

namespace shardlm {

struct ConfigFile {
  std::vector<Assignment> top;      ///< options of `table` from the top of the file
  std::vector<Assignment> section;  ///< from the map under the sub-command's name
  std::vector<std::string> unused;  ///< keys at the top that are options of other sub-commands
};

/// Reads all of the file and checks all of it, the sections of other sub-commands included. A file
/// that cannot be read, YAML that is broken, an unknown or doubled key, and a value of the wrong
/// type are Error(usage) with file and line.
ConfigFile read_config_file(const std::string& path, std::span<const CommandTable> tables,
                            const CommandTable& table);

}  // namespace shardlm
