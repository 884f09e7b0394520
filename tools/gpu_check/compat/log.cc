// base/log.h on standard error, without spdlog.
#include "base/log.h"

#include <cstdio>
#include <string>

namespace shardlm::log {
namespace {

void print(std::string_view kind, std::string_view text) {
  const std::string line = "gpu_check: " + std::string(kind) + std::string(text) + "\n";
  std::fputs(line.c_str(), stderr);
}

}  // namespace

void init(int, int, Level) {}
void error(std::string_view text) { print("error: ", text); }
void warning(std::string_view text) { print("warning: ", text); }
void info(std::string_view text) { print("", text); }
void verbose(std::string_view) {}

}  // namespace shardlm::log
