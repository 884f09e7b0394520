#include "launcher/fault.h"

#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <regex>

#include "base/error.h"
#include "base/log.h"

namespace shardlm {

Fault Fault::from_environment(int rank) {
  const char* text = std::getenv("SHARDLM_FAULT");
  return text == nullptr ? Fault() : parse(text, rank);
}

Fault Fault::parse(const std::string& text, int rank) {
  static const std::regex form(
      "rank=(\\d{1,6}),stage=(load|forward|token:(\\d{1,9})|end),action=(throw|kill|stop|hang|"
      "exit)");
  std::smatch m;
  if (!std::regex_match(text, m, form)) {
    fail(ExitCode::usage,
         {.what = "fault to inject",
          .expected = "rank=R,stage=load|forward|token:N|end,action=throw|kill|stop|hang|exit",
          .found = text,
          .where = "SHARDLM_FAULT",
          .remedy = "unset it unless you test failures"});
  }
  Fault fault;
  if (std::stoi(m[1]) != rank) return fault;
  const std::string action = m[4];
  fault.action_ = action == "throw"  ? Action::fail
                  : action == "kill" ? Action::kill
                  : action == "stop" ? Action::stop
                  : action == "hang" ? Action::hang
                                     : Action::exit;
  if (m[2] == "end") fault.stage_ = Stage::end;
  if (m[2] == "forward" || m[3].matched) fault.stage_ = Stage::step;
  if (m[3].matched) fault.step_ = std::stoll(m[3]);
  return fault;
}

void Fault::at_load() const {
  if (stage_ == Stage::load) strike();
}

void Fault::at_end() const {
  if (stage_ == Stage::end) strike();
}

StepHook Fault::step_hook() const {
  if (action_ == Action::none || stage_ != Stage::step) return {};
  return [fault = *this](std::int64_t step) {
    if (step == fault.step_) fault.strike();
  };
}

void Fault::strike() const {
  switch (action_) {
    case Action::none:
      return;
    case Action::fail:
      throw Error(ExitCode::bug, "fault injected by SHARDLM_FAULT");
    case Action::kill:
      std::raise(SIGKILL);
      return;
    case Action::stop:
      std::raise(SIGSTOP);
      return;
    case Action::hang:
      while (true) pause();
    case Action::exit:
      _exit(static_cast<int>(ExitCode::bug));
  }
}

}  // namespace shardlm
