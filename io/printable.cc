#include "io/printable.h"

#include <fmt/format.h>

#include <iterator>

namespace shardlm {

std::string printable(std::string_view text, std::size_t limit) {
  std::string out;
  for (const char c : text.substr(0, limit)) {
    if (c >= ' ' && c <= '~') {
      out += c;
    } else {
      fmt::format_to(std::back_inserter(out), "\\x{:02x}", static_cast<unsigned char>(c));
    }
  }
  if (text.size() > limit) fmt::format_to(std::back_inserter(out), "... ({} bytes)", text.size());
  return out;
}

std::string in_quotes(std::string_view name) { return fmt::format("\"{}\"", printable(name)); }

}  // namespace shardlm
