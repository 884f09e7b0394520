#include "launcher/study_hosts.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>

#include "base/error.h"
#include "io/printable.h"
#include "launcher/options_values.h"
#include "launcher/text_input.h"

namespace shardlm {
namespace {

constexpr IntegerRange kSlots{1, 1'000'000};

HostSlots host_of(const std::string& name, const std::string& slots, const std::string& where) {
  const bool plain = !name.empty() && name[0] != '-' && std::ranges::all_of(name, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '.' || c == '_';
  });
  if (!plain) {
    fail(ExitCode::usage,
         {.expected = "the name of a host", .found = in_quotes(name), .where = where});
  }
  return {name, slots.empty() ? 0 : static_cast<int>(parse_integer(slots, where, kSlots))};
}

}  // namespace

HostSlots parse_host(const std::string& text, const std::string& where) {
  const std::size_t colon = text.find(':');
  const std::string slots = colon == std::string::npos ? "" : text.substr(colon + 1);
  if (colon != std::string::npos && slots.empty()) return host_of("", "", where);
  return host_of(text.substr(0, colon), slots, where);
}

std::vector<HostSlots> read_hostfile(const std::string& path, const std::string& where) {
  std::vector<HostSlots> hosts;
  std::istringstream lines(read_file(path));
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    const std::string place = fmt::format("{}:{}", path, ++number);
    std::istringstream words(line.substr(0, line.find('#')));
    std::string name, slots;
    if (!(words >> name)) continue;
    for (std::string word; words >> word;) {
      if (word.starts_with("slots=")) slots = word.substr(6);
    }
    hosts.push_back(host_of(name, slots, place));
  }
  if (hosts.empty()) {
    fail(ExitCode::usage,
         {.expected = "a hostfile with a host", .found = "none", .where = where + ": " + path});
  }
  return hosts;
}

}  // namespace shardlm
