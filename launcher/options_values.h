// Texts of flags and of configuration files turned into values. `where` names the flag or the
// file, line and key; a text that does not fit is an Error(ExitCode::usage) that gives where, what
// was expected and what was found.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

namespace shardlm {

/// Both ends belong to it.
struct IntegerRange {
  std::int64_t least = std::numeric_limits<std::int64_t>::min();
  std::int64_t most = std::numeric_limits<std::int64_t>::max();
};

/// A decimal integer, nothing before or after it.
std::int64_t parse_integer(std::string_view text, const std::string& where, IntegerRange range);
/// 0 … 2^64 - 1.
std::uint64_t parse_unsigned(std::string_view text, const std::string& where);
/// A finite decimal number.
double parse_real(std::string_view text, const std::string& where);
/// A number of seconds, above 0.
double parse_seconds(std::string_view text, const std::string& where);
/// "true" or "false".
bool parse_switch(std::string_view text, const std::string& where);
/// "a,b": its parts, none of them empty.
std::vector<std::string> split_list(std::string_view text, const std::string& where);
/// "1,2,3" or "1 2 3": token ids, each from 0 to 2^31 - 1; a text of blanks is an empty list.
std::vector<std::int32_t> parse_ids(std::string_view text, const std::string& where);

}  // namespace shardlm
