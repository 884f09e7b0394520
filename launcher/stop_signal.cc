#include "launcher/stop_signal.h"

#include <array>
#include <cstdlib>

namespace shardlm {
namespace {

constexpr std::array kSignals = {SIGINT, SIGTERM, SIGHUP};
volatile std::sig_atomic_t caught_signal = 0;

extern "C" void note_signal(int number) { caught_signal = number; }

}  // namespace

StopSignal::StopSignal() {
  caught_signal = 0;
  struct sigaction action = {};
  action.sa_handler = note_signal;
  sigemptyset(&action.sa_mask);
  for (std::size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &action, &before_[i]);
}

StopSignal::~StopSignal() {
  for (std::size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &before_[i], nullptr);
}

int StopSignal::caught() { return caught_signal; }

void StopSignal::obey() {
  const int number = caught_signal;
  std::signal(number, SIG_DFL);
  std::raise(number);
  std::_Exit(128 + number);
}

}  // namespace shardlm
