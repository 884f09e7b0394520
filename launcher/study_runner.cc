#include "launcher/study_runner.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "base/log.h"
#include "launcher/errors.h"
#include "launcher/stop_signal.h"
#include "launcher/study_predictions.h"
#include "launcher/study_progress.h"
#include "study/sweep/cell_command.h"
#include "study/sweep/cells_file.h"
#include "study/sweep/process.h"

namespace shardlm {
namespace {

using Json = nlohmann::ordered_json;
namespace fs = std::filesystem;

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}Z", parts.tm_year + 1900, parts.tm_mon + 1,
                     parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec);
}

// The results among the lines of a job's output.
Json results_of(const std::string& output) {
  Json results = Json::array();
  for (std::size_t at = 0; at < output.size();) {
    const std::size_t end = std::min(output.find('\n', at), output.size());
    if (output[at] == '{') {
      Json line = Json::parse(output.substr(at, end - at), nullptr, false);
      if (line.is_object()) results.push_back(std::move(line));
    }
    at = end + 1;
  }
  return results;
}

std::string last_line(const std::string& text) {
  const std::size_t end = text.find_last_not_of(" \n\r\t");
  if (end == std::string::npos) return "";
  const std::size_t error = text.rfind("error: ", end);
  const std::size_t start = text.rfind('\n', error == std::string::npos ? end : error);
  const std::size_t from = start == std::string::npos ? 0 : start + 1;
  return text.substr(from, std::min(text.find('\n', from), end + 1) - from);
}

class Runner {
 public:
  Runner(const SweepPlan& plan, fs::path folder, const RunSettings& settings)
      : plan_(plan),
        folder_(std::move(folder)),
        settings_(settings),
        file_(folder_),
        records_(file_.records().lines),
        done_s_(plan.cells.size()) {}

  RunSummary run();

 private:
  void read_records();
  void end_leftover() const;
  void announce_budget() const;
  bool fits(std::size_t i);
  void predict_before(const Cell& cell);
  bool launch(const LaunchRef& ref);
  ProcessEnd execute(const Cell& cell, std::vector<std::string>& command);
  Json record_of(const LaunchRef& ref, const std::string& started, const ProcessEnd& end,
                 const std::vector<std::string>& command) const;
  void leave(std::size_t i, const std::string& why);
  double remaining_s() const;
  std::vector<LaunchRef> left_from(std::size_t i) const;

  const SweepPlan& plan_;
  fs::path folder_;
  const RunSettings& settings_;
  CellsFile file_;
  std::vector<Json> records_;
  std::vector<std::vector<double>> done_s_;  // of each cell: wall times of its launches
  std::vector<LaunchRef> order_;             // that are not done yet
  std::size_t at_ = 0;
  double spent_s_ = 0, limit_s_ = 0;  // of the budget; limit 0: none
  RunSummary summary_;
  std::optional<StudyProgress> progress_;
};

RunSummary Runner::run() {
  const StopSignal stop;
  if (!file_.records().note.empty()) log::warning(file_.records().note);
  end_leftover();
  read_records();
  progress_.emplace(summary_.finished, plan_.order.size());
  announce_budget();
  for (at_ = 0; at_ < order_.size(); ++at_) {
    if (!fits(at_)) {
      leave(at_, "the budget is used up");
      break;
    }
    predict_before(plan_.cells[order_[at_].cell]);
    const bool ok = StopSignal::caught() == 0 && launch(order_[at_]);
    if (StopSignal::caught() != 0) {
      summary_.signal = StopSignal::caught();
      leave(at_, "a signal ended the run");
      break;
    }
    if (!ok && settings_.stop_on_failure) {
      leave(at_ + 1, "a launch failed (--stop-on-failure)");
      break;
    }
  }
  progress_.reset();
  return summary_;
}

void Runner::read_records() {
  std::map<std::string, std::size_t> places;
  for (std::size_t i = 0; i < plan_.cells.size(); ++i) places[plan_.cells[i].id] = i;
  std::set<std::pair<std::size_t, int>> done;
  for (const Json& record : records_) {
    const auto place = places.find(record.at("cell").get<std::string>());
    if (place == places.end()) {
      fail(ExitCode::model_files, {.what = "a launch of a cell that the plan does not have",
                                   .where = (folder_ / "cells.jsonl").string()});
    }
    done.emplace(place->second, record.at("launch").get<int>());
    const double wall_s = record.value("wall_s", 0.0);
    done_s_[place->second].push_back(wall_s);
    spent_s_ += wall_s;
    ++summary_.finished;
    summary_.failed += record.at("status") != "ok";
  }
  for (const LaunchRef& ref : plan_.order) {
    if (!done.contains({ref.cell, ref.launch})) order_.push_back(ref);
  }
  if (settings_.minutes) {
    limit_s_ = spent_s_ + *settings_.minutes * 60;
  } else if (plan_.budget_minutes) {
    limit_s_ = *plan_.budget_minutes * 60;
  }
}

// A killed run cannot end its job: mpirun goes on, and would disturb what is measured now.
void Runner::end_leftover() const {
  std::ifstream file(folder_ / "running");
  int pid = 0;
  std::uint64_t start = 0;
  if (file >> pid >> start && pid > 1 && process_start_time(pid) == start) {
    log::warning(fmt::format("ends process {}, which a study that was killed left behind", pid));
    ::kill(-pid, SIGTERM);
    for (int i = 0; i < 50 && process_start_time(pid) == start; ++i) {
      const timespec pause{0, 100'000'000};
      nanosleep(&pause, nullptr);
    }
    ::kill(-pid, SIGKILL);
  }
  std::error_code ignored;
  fs::remove(folder_ / "running", ignored);
}

std::vector<LaunchRef> Runner::left_from(std::size_t i) const {
  return {order_.begin() + static_cast<std::ptrdiff_t>(i), order_.end()};
}

void Runner::announce_budget() const {
  if (limit_s_ <= 0 || order_.empty()) return;
  const BudgetFit fit =
      fit_budget(order_, expected_seconds(plan_.cells, done_s_), limit_s_ - spent_s_);
  if (fit.dropped == 0) return;
  log::info(
      fmt::format("about {} of the {} jobs that are left fit into the {} that are left; later "
                  "launches are dropped first",
                  fit.kept.size(), order_.size(), duration_text(limit_s_ - spent_s_)));
}

// A round is begun only if all of it fits, so that all cells have as many launches.
bool Runner::fits(std::size_t i) {
  if (limit_s_ <= 0) return true;
  if (spent_s_ == 0) return true;  // nothing is known but guesses
  const std::vector<double> expected = expected_seconds(plan_.cells, done_s_);
  const double free_s = limit_s_ - spent_s_;
  const LaunchRef& ref = order_[i];
  const bool opens = ref.launch > 0 && (i == 0 || order_[i - 1].launch != ref.launch);
  double needed_s = expected[ref.cell];
  if (opens) {
    needed_s = 0;
    for (const LaunchRef& other : left_from(i)) {
      if (other.launch == ref.launch) needed_s += expected[other.cell];
    }
  }
  return needed_s <= free_s;
}

void Runner::leave(std::size_t i, const std::string& why) {
  summary_.left = order_.size() - i;
  summary_.why_left = why;
}

void Runner::predict_before(const Cell& cell) {
  if (!plan_.predict || cell.kind == CellKind::calibrate || ranks_of(cell.factors) == 1) return;
  if (fs::exists(folder_ / "predictions.jsonl")) return;
  write_predictions(plan_, folder_, records_);
}

double Runner::remaining_s() const {
  const std::vector<double> expected = expected_seconds(plan_.cells, done_s_);
  double sum_s = 0;
  for (std::size_t i = at_; i < order_.size(); ++i) sum_s += expected[order_[i].cell];
  if (limit_s_ > 0) sum_s = std::min(sum_s, std::max(0.0, limit_s_ - spent_s_));
  return sum_s;
}

ProcessEnd Runner::execute(const Cell& cell, std::vector<std::string>& command) {
  for (std::string& word : command) {
    const std::size_t at = word.find(kStudyFolder);
    if (at != std::string::npos) {
      word.replace(at, std::string(kStudyFolder).size(), fs::absolute(folder_).string());
    }
  }
  const double all_s = remaining_s();
  const fs::path running = folder_ / "running";
  ProcessEnd end;
  const auto error = caught([&] {
    end = run_process(
        {.command = command, .env = plan_.env, .timeout_s = plan_.timeout_s},
        [&](double t) {
          progress_->tick(std::max(0.0, all_s - t));
          return StopSignal::caught() != 0;
        },
        [&](int pid) {
          write_whole_file(running,
                           fmt::format("{} {}\n", pid, process_start_time(pid).value_or(0)));
        });
  });
  if (error && error->code() != ExitCode::usage) throw *error;
  if (error) end = {.exit_code = 127, .messages = error->what()};
  fs::remove(running);
  if (cell.kind == CellKind::calibrate) end.output.clear();
  return end;
}

Json Runner::record_of(const LaunchRef& ref, const std::string& started, const ProcessEnd& end,
                       const std::vector<std::string>& command) const {
  const Cell& cell = plan_.cells[ref.cell];
  Json results = results_of(end.output);
  const bool nothing = results.empty() && cell.kind != CellKind::calibrate;
  const bool ok = end.ok() && !nothing;
  std::string messages = end.messages;
  if (end.ok() && nothing) messages += "\nno result was on its standard output";
  return {{"cell", cell.id},
          {"launch", ref.launch},
          {"factors", cell.factors},
          {"kind", name(cell.kind)},
          {"status", end.timed_out ? "timeout"
                     : ok          ? "ok"
                                   : "failed"},
          {"exit_code", end.exit_code ? Json(*end.exit_code) : Json(nullptr)},
          {"signal", end.signal ? Json(*end.signal) : Json(nullptr)},
          {"started", started},
          {"wall_s", end.wall_s},
          {"command", command},
          {"messages", messages},
          {"results", std::move(results)}};
}

// False if it failed.
bool Runner::launch(const LaunchRef& ref) {
  const Cell& cell = plan_.cells[ref.cell];
  progress_->start(fmt::format("{} launch {} ({}{})", cell.id, ref.launch + 1,
                               cell.kind == CellKind::bench ? "" : name(cell.kind) + " ",
                               factors_text(cell.factors)));
  const std::string started = utc_now();
  std::vector<std::string> command = cell.command;
  const ProcessEnd end = execute(cell, command);
  if (end.stopped) return false;  // not finished: it is run again
  Json record = record_of(ref, started, end, command);
  file_.append(record);
  const std::string status = record.at("status").get<std::string>();
  done_s_[ref.cell].push_back(end.wall_s);
  spent_s_ += end.wall_s;
  ++summary_.finished;
  summary_.failed += status != "ok";
  std::string how = fmt::format("{}, {}", status, duration_text(end.wall_s));
  if (status == "failed") {
    how += end.signal ? fmt::format(", signal {}", *end.signal)
                      : fmt::format(", exit code {}", end.exit_code.value_or(0));
    const std::string message = last_line(record.at("messages").get<std::string>());
    if (!message.empty()) how += ": " + message;
  }
  ++at_;  // for the estimate
  progress_->finish(how, remaining_s());
  --at_;
  records_.push_back(std::move(record));
  return status == "ok";
}

}  // namespace

RunSummary run_study(const SweepPlan& plan, const fs::path& folder, const RunSettings& settings) {
  return Runner(plan, folder, settings).run();
}

}  // namespace shardlm
