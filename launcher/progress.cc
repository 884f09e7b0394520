#include "launcher/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

#include "engine/generate.h"

namespace shardlm {

Progress::Progress(bool wanted, std::string what)
    : active_(wanted && isatty(STDERR_FILENO) != 0),
      what_(std::move(what)),
      start_s_(steady_seconds()) {}

void Progress::update(std::int64_t done, std::int64_t total) {
  if (!active_ || steady_seconds() - start_s_ < 1) return;
  fmt::print(stderr, "\r{} {}/{}", what_, done, total);
  std::fflush(stderr);
  shown_ = true;
}

void Progress::finish() {
  if (shown_) fmt::print(stderr, "\r\033[K");
  shown_ = false;
}

}  // namespace shardlm
