#include "launcher/bench_run.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/generate.h"
#include "launcher/environment_record.h"
#include "launcher/progress.h"
#include "launcher/rank_values.h"
#include "study/run_window.h"

namespace shardlm {
namespace {

constexpr std::size_t kMostCalls = 1 << 20, kMostGaps = 1 << 16;

// Calls of a pass: the plan, two sums in each layer and one before them, each perhaps in halves,
// and the answers.
std::size_t calls_of(std::int64_t passes, const ModelConfig& config) {
  const auto calls = static_cast<std::size_t>(passes * (2 * (2 * config.n_layer + 1) + 4) + 64);
  return std::min(calls, kMostCalls);
}

std::int64_t to_ns(double s) { return static_cast<std::int64_t>(s * 1e9); }

}  // namespace

BenchRun::BenchRun(const BenchOptions& options, const Job& job, Session& session,
                   const std::vector<BenchTest>& tests, const BenchSetup& setup)
    : o_(options),
      job_(job),
      session_(session),
      tests_(tests),
      setup_(setup),
      samples_(tests.size()),
      states_(tests.size()) {
  std::int64_t passes = 0;
  for (const BenchTest& test : tests) passes = std::max(passes, bench_passes(test, setup));
  recorder_ = session.record_parts(calls_of(passes, session.config()),
                                   std::min(static_cast<std::size_t>(passes) + 8, kMostCalls));
  const bool sums = session.size() > 1 && options.engine.comm != CommChoice::none;
  const bool exact = options.engine.reduction == ReductionChoice::exact;
  const auto kind = !sums   ? TestAccount::Sums::none
                    : exact ? TestAccount::Sums::exact
                            : TestAccount::Sums::floats;
  for (BenchSamples& samples : samples_) {
    if (recorder_->records()) samples.account.emplace(session.config(), kind);
  }
  find_counters();
}

// One rank of each machine reads its counters; the others' meters stay still.
void BenchRun::find_counters() {
  struct Counters {
    std::uint64_t packages;
    bool reads;
  };
  const bool reads = job_.world.node_rank() == 0;
  const auto all = values_of_ranks(job_.control, Counters{meter_.packages(), reads});
  std::uint64_t packages = 0, machines = 0;
  bool every = true;
  for (const Counters& c : all) {
    if (!c.reads) continue;
    packages += c.packages;
    ++machines;
    every = every && c.packages > 0;
  }
  has_joules_ = value_of_root(job_.control, every);
  joules_source_ = every ? fmt::format("RAPL, {} package{} of {} machine{}", packages,
                                       packages == 1 ? "" : "s", machines, machines == 1 ? "" : "s")
                         : (meter_.works() ? "another machine has no counters" : meter_.why_not());
  if (!reads) meter_ = EnergyMeter(std::filesystem::path("/nowhere"));
}

int BenchRun::run() {
  Progress line(root(), "measuring, tests done");
  while (true) {
    const std::int32_t test = value_of_root(job_.control, root() ? next_test() : 0);
    if (test < 0) break;
    if (root()) {
      line.update(
          std::count_if(states_.begin(), states_.end(), [](const State& p) { return p.done; }),
          std::ssize(tests_));
    }
    if (const int code = repeat(static_cast<std::size_t>(test)); code != 0) return code;
  }
  line.finish();
  return 0;
}

// The next one in turn that has not enough; -1: all have.
std::int32_t BenchRun::next_test() {
  for (std::size_t i = 1; i <= tests_.size(); ++i) {
    const std::size_t test = (last_ + i) % tests_.size();
    if (states_[test].done) continue;
    last_ = test;
    return static_cast<std::int32_t>(test);
  }
  return -1;
}

void BenchRun::watch(std::size_t test) {
  State& p = states_[test];
  if (p.begun) return;
  p.begun = true;
  samples_[test].canary = worst_canary(job_);
}

int BenchRun::repeat(std::size_t test) {
  watch(test);
  const double start_s = steady_seconds();
  BenchTiming timing;
  recorder_->begin();
  if (has_joules_) meter_.joules();
  const int code = session_.part([&](Coordinator& coordinator) {
    timing = run_bench_test(coordinator, tests_[test], setup_);
  });
  const double mine_j = has_joules_ ? meter_.joules() : 0;
  if (code != 0) return code;
  std::optional<MergedRun> records = recorder_->end();
  double joules = 0;
  if (has_joules_) {
    for (const double j : values_of_ranks(job_.control, mine_j)) joules += j;
  }
  if (!root()) return 0;
  states_[test].measuring_s += steady_seconds() - start_s;
  keep(test, timing, std::move(records), joules);
  return 0;
}

void BenchRun::keep(std::size_t test, const BenchTiming& timing, std::optional<MergedRun> records,
                    double joules) {
  State& p = states_[test];
  BenchSamples& s = samples_[test];
  if (!p.warm) {
    const WarmupRule rule{.least = o_.warmup, .most = o_.warmup + 10};
    if (o_.warmup > 0) {
      p.warmup.push_back(timing.seconds());
      p.warm = rule.warm(p.warmup, p.measuring_s);
      if (p.warm) p.measuring_s = 0;
      return;
    }
    p.warm = true;
  }
  s.seconds.push_back(timing.seconds());
  s.passes = timing.passes;
  const std::size_t room = kMostGaps - std::min(s.gaps_s.size(), kMostGaps);
  s.gaps_s.insert(
      s.gaps_s.end(), timing.gaps_s.begin(),
      timing.gaps_s.begin() + static_cast<std::ptrdiff_t>(std::min(room, timing.gaps_s.size())));
  if (has_joules_) s.joules = s.joules.value_or(0) + joules;
  if (s.account && records) {
    s.account->add(window_of(std::move(*records), to_ns(timing.begin_s), to_ns(timing.end_s)),
                   static_cast<std::uint64_t>(timing.passes));
  }
  const StopRule rule{o_.repetitions, o_.most, o_.max_seconds, o_.ci_width};
  const std::optional<Stopped> stopped = rule.stop(s.seconds, p.measuring_s);
  if (!stopped) return;
  s.stopped = *stopped;
  p.done = true;
}

}  // namespace shardlm
