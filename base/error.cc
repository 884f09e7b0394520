#include "base/error.h"

#include <fmt/format.h>

namespace shardlm {

std::string describe(const Problem& problem) {
  std::string text = problem.where;
  const auto join = [&text](std::string_view separator, const std::string& part) {
    if (part.empty()) return;
    if (!text.empty()) text += separator;
    text += part;
  };
  join(": ", problem.what);
  if (!problem.expected.empty()) join(": ", "expected " + problem.expected);
  if (!problem.found.empty())
    join(problem.expected.empty() ? ": " : ", ", "found " + problem.found);
  join("; ", problem.remedy);
  return text;
}

void fail(ExitCode code, const Problem& problem) { throw Error(code, describe(problem)); }

void check(bool ok, std::string_view what, const char* file, int line) {
  if (!ok)
    throw Error(ExitCode::bug, fmt::format("internal check failed at {}:{}: {}", file, line, what));
}

}  // namespace shardlm
