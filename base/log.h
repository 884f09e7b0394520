// Messages to people, on standard error. Results go to standard output and never through here.
#pragma once

#include <string>
#include <string_view>

namespace shardlm::log {

enum class Level { quiet, normal, verbose };

/// Called once at start: lines of ranks other than 0 (and all lines of rank 0 when `size` > 1 and
/// `verbose`) carry "[rank N]".
void init(int rank, int size, Level level);

void error(std::string_view text);    ///< "shardlm: error: …": always printed
void warning(std::string_view text);  ///< "shardlm: warning: …": unless quiet
void info(std::string_view text);     ///< "shardlm: …": unless quiet
void verbose(std::string_view text);  ///< with --verbose only

}  // namespace shardlm::log
