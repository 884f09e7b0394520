#include "base/log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

namespace shardlm::log {
namespace {

spdlog::level::level_enum threshold(Level level) {
  switch (level) {
    case Level::quiet:
      return spdlog::level::err;
    case Level::normal:
      return spdlog::level::info;
    case Level::verbose:
      return spdlog::level::debug;
  }
  return spdlog::level::info;
}

// One logger for the process, made on first use so that a message before init() is not lost.
spdlog::logger& logger() {
  static const auto instance = [] {
    auto made = spdlog::stderr_logger_mt("shardlm");
    made->set_pattern("shardlm: %v");
    made->flush_on(spdlog::level::debug);
    return made;
  }();
  return *instance;
}

}  // namespace

void init(int rank, int size, Level level) {
  const bool tag = rank != 0 || (size > 1 && level == Level::verbose);
  logger().set_pattern(tag ? "shardlm: [rank " + std::to_string(rank) + "] %v" : "shardlm: %v");
  logger().set_level(threshold(level));
}

void error(std::string_view text) { logger().error("error: {}", text); }
void warning(std::string_view text) { logger().warn("warning: {}", text); }
void info(std::string_view text) { logger().info("{}", text); }
void verbose(std::string_view text) { logger().debug("{}", text); }

}  // namespace shardlm::log
