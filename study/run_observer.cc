#include "study/run_observer.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <utility>

#include "base/error.h"
#include "study/trace.h"

namespace shardlm {
namespace {

void write_file(const std::filesystem::path& path, const char* what,
                const std::function<void(std::ostream&)>& write) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  if (file) write(file);
  file.close();
  if (file) return;
  fail(ExitCode::usage,
       {.what = fmt::format("{} cannot be written: {}", what, std::strerror(errno)),
        .where = path.string(),
        .remedy = "give a file in a folder that exists and has room"});
}

}  // namespace

RunObserver::RunObserver(Communicator& comm, CallLog& log, RankIdentity who,
                         ObserverOptions options)
    : comm_(comm), log_(log), who_(std::move(who)), options_(std::move(options)) {
  if (options_.collective()) first_offsets_ = measure_clock_offsets(comm_, who_.machine);
  if (!log_.on() && options_.wanted()) {
    log_.calls = RecordRing<CallRecord>(options_.calls);
    log_.steps = RecordRing<StepRecord>(options_.steps);
  }
  if (options_.wanted()) comm_.record_device_calls(options_.calls);
  log_.tells_wait = options_.live;  // the others have the ranks' entries on one clock
  log_.calls.clear();
  log_.steps.clear();
  first_ = run_ = TickAnchor::now();
}

void RunObserver::begin_run() { run_ = TickAnchor::now(); }

std::string RunObserver::live_line(std::uint64_t token) const {
  const bool tsc = log_.clock == TickClock::cpu && ticks_are_tsc();
  const double ns_per_tick = tsc ? TickScale(first_, TickAnchor::now()).ns_per_tick() : 1;
  const StepCost cost = last_step_cost(log_, ns_per_tick);
  return shardlm::live_line(token, {&cost, 1});
}

std::string RunObserver::finish() {
  if (!options_.collective()) return "";
  // The records first: what follows is no part of the run.
  RankRecords mine = take_records(log_, who_);
  mine.first = first_;
  mine.run = run_;
  mine.last = TickAnchor::now();
  if (const CallLog* device = comm_.device_log()) add_device_records(mine, *device);
  const std::vector<ClockOffset> last = measure_clock_offsets(comm_, who_.machine);
  const std::vector<RankRecords> ranks = gather_records(comm_, mine);
  std::optional<WireQuality> quality;
  if (options_.quality) quality = options_.quality();
  if (comm_.rank() != 0) return "";
  const MergedRun run = merge_records(ranks, first_offsets_, last);
  if (!options_.trace_file.empty()) {
    write_file(options_.trace_file, "the trace",
               [&](std::ostream& to) { write_trace(run, options_.title, to); });
  }
  CommReport report = make_comm_report(
      run, {.per_layer = options_.per_layer, .model = options_.model, .link = options_.link});
  report.exactness = options_.exactness;
  report.quality = std::move(quality);
  if (!options_.report_file.empty()) {
    write_file(options_.report_file, "the communication report",
               [&](std::ostream& to) { to << report_json(report); });
  }
  return options_.report ? report_text(report) : "";
}

}  // namespace shardlm
