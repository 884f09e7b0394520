#include "launcher/study_progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "base/log.h"
#include "engine/generate.h"
#include "study/sweep/budget.h"

namespace shardlm {
namespace {

constexpr std::size_t kBar = 20;
constexpr double kRedraw_s = 0.5;

std::size_t columns() {
  winsize size{};
  if (::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 80;
  return size.ws_col;
}

}  // namespace

std::string bar_text(std::size_t done, std::size_t total, std::size_t width) {
  const std::size_t full = total == 0 ? width : std::min(width, done * width / total);
  return fmt::format("[{}{}] {}/{}", std::string(full, '#'), std::string(width - full, '.'), done,
                     total);
}

StudyProgress::StudyProgress(std::size_t done, std::size_t total)
    : terminal_(isatty(STDERR_FILENO) != 0),
      done_(done),
      total_(total),
      start_s_(steady_seconds()) {}

StudyProgress::~StudyProgress() { clear(); }

void StudyProgress::clear() {
  if (shown_) fmt::print(stderr, "\r\033[K");
  shown_ = false;
}

void StudyProgress::start(std::string what) {
  what_ = std::move(what);
  drawn_s_ = 0;
}

void StudyProgress::tick(double remaining_s) {
  if (!terminal_ || steady_seconds() - drawn_s_ < kRedraw_s) return;
  drawn_s_ = steady_seconds();
  const std::string line =
      fmt::format("{} {} gone, about {} left: {}", bar_text(done_, total_, kBar),
                  duration_text(steady_seconds() - start_s_), duration_text(remaining_s), what_);
  fmt::print(stderr, "\r\033[K{}", line.substr(0, columns() - 1));
  std::fflush(stderr);
  shown_ = true;
}

void StudyProgress::finish(const std::string& how, double remaining_s) {
  ++done_;
  clear();
  log::info(fmt::format("{}/{} {}: {}; about {} left", done_, total_, what_, how,
                        duration_text(remaining_s)));
}

}  // namespace shardlm
