// Text that a file supplied, made fit for an error message.
#pragma once

#include <string>
#include <string_view>

namespace shardlm {

/// Plain ASCII of bounded length: bytes outside ' '…'~' as \xNN, at most `limit` bytes of the text
/// and then "... (N bytes)".
std::string printable(std::string_view text, std::size_t limit = 120);

/// "\"name\"", with the name made printable.
std::string in_quotes(std::string_view name);

}  // namespace shardlm
