// `shardlm bench coll`: the collectives one by one, by algorithm and size.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iostream>

#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/read_bandwidth.h"
#include "base/log.h"
#include "comm/agreement.h"
#include "comm/emulation.h"
#include "comm/make_communicator.h"
#include "launcher/coll_report.h"
#include "launcher/commands.h"
#include "launcher/environment_record.h"
#include "launcher/errors.h"
#include "launcher/output.h"
#include "launcher/progress.h"
#include "study/calibration.h"
#include "study/emulated_load.h"
#include "study/tune.h"

namespace shardlm {
namespace {

// What is read before each call to make the caches cold: more than a core's share of any.
constexpr std::size_t kColdBytes = std::size_t{64} << 20;

Op op_of(const std::string& word) {
  for (const Op op : {Op::all_reduce, Op::broadcast, Op::gather, Op::barrier}) {
    if (op_name(op) == word) return op;
  }
  check(false, "an operation's name");
  return Op::barrier;
}

/// All measurements of one run, rank by rank the same calls.
class CollCommand {
 public:
  CollCommand(const CollOptions& options, const Job& job)
      : o_(options), job_(job), backend_(make_cpu_backend(1)) {}

  void run();

 private:
  void begin();
  void read_model();
  CommSettings settings(const AllReduceChoice* choice) const;
  std::vector<AllReduceChoice> choices() const;
  std::vector<CollCandidate> candidates(Op op);
  void measure(Op op, CollMode mode, const std::vector<CollCandidate>& candidates);
  CollModel model_for(const std::vector<CollResult>& results);
  void report(std::vector<CollResult>& results);
  bool root() const { return job_.world.rank() == 0; }

  const CollOptions& o_;
  const Job& job_;
  std::unique_ptr<Backend> backend_;
  std::optional<ReadBandwidth> cold_;
  CollContext context_;
  std::unique_ptr<CollReport> report_;
  std::optional<Calibration> calibration_;  // rank 0's, if one is asked for
  std::uint64_t n_wrong_ = 0;
};

void CollCommand::run() {
  begin();
  for (const std::string& word : o_.ops) {
    const Op op = op_of(word);
    std::vector<CollCandidate> all;
    agree(job_.control, caught([&] { all = candidates(op); }));
    for (const CollMode mode : o_.modes) measure(op, mode, all);
  }
  agree_with_root(job_.control, caught([&] {
                    if (!root()) return;
                    report_->end(context_);
                    finish_output(std::cout);
                    check(n_wrong_ == 0, "a collective gave a wrong result");
                  }));
}

// A file that was measured over another network predicts another one.
void CollCommand::read_model() {
  if (!root() || o_.calibration.empty()) return;
  calibration_ = read_calibration(o_.calibration);
  if (calibration_->emulate == o_.emulate) return;
  const auto text = [](const std::string& network) {
    return network.empty() ? "no emulation" : "--emulate " + network;
  };
  fail(ExitCode::usage, {.what = "--calibration",
                         .expected = text(calibration_->emulate) + ", as it was measured",
                         .found = text(o_.emulate),
                         .where = o_.calibration,
                         .remedy = "calibrate this network, or leave the file out"});
}

void CollCommand::begin() {
  agree_with_root(job_.control, caught([&] { read_model(); }));
  context_.environment = environment_record(job_);
  context_.ranks = job_.world.size();
  context_.ranks_of_nodes = ranks_of_nodes(job_.world);
  context_.emulate = o_.emulate;
  context_.buffers = o_.buffers == CollBuffers::cold ? "cold" : "warm";
  context_.oversubscribed = oversubscribed(job_, 1);
  agree(job_.control, caught([&] {
          if (o_.buffers == CollBuffers::cold) cold_.emplace(kColdBytes, 1);
        }));
  if (!root()) return;
  if (context_.oversubscribed)
    log::warning("more ranks than cores: what is measured is the system's scheduling as well");
  if (!o_.emulate.empty())
    log::warning("--emulate " + o_.emulate + ": all times are those of an emulated network");
  report_ = make_coll_report(o_.shared.json ? BenchFormat::json : o_.format, std::cout);
  report_->begin(context_);
}

CommSettings CollCommand::settings(const AllReduceChoice* choice) const {
  CommSettings settings;
  settings.deadlines = {.collective_s = o_.timeout_s, .load_s = o_.timeout_s};
  if (choice != nullptr) settings.table = AlgorithmTable({AllReduceRule{.choice = *choice}});
  if (!o_.emulate.empty()) settings.emulation = parse_emulation(o_.emulate);
  settings.load = [shape = group_shape(job_.world)](const AllReduceChoice& c, std::size_t bytes) {
    return emulated_load(c, shape, bytes);
  };
  return settings;
}

// The library's own is always among them: what the others are compared with.
std::vector<AllReduceChoice> CollCommand::choices() const {
  if (o_.algorithms.empty()) return tune_choices(group_shape(job_.world));
  std::vector<AllReduceChoice> choices;
  for (const std::string& word : o_.algorithms) choices.push_back(parse_choice(word));
  const AllReduceChoice library{Algorithm::mpi};
  if (std::find(choices.begin(), choices.end(), library) == choices.end())
    choices.push_back(library);
  return choices;
}

std::vector<CollCandidate> CollCommand::candidates(Op op) {
  std::vector<CollCandidate> all;
  if (op == Op::all_reduce) {
    for (const AllReduceChoice& choice : choices()) {
      all.push_back({choice_text(choice), choice,
                     make_communicator(job_.world, *backend_, settings(&choice))});
    }
    return all;
  }
  // The others have one way over shared memory and one by messages.
  for (const char* transport : {"shm", "mpi"}) {
    if (transport == std::string("shm") && !job_.world.one_node()) continue;
    CommSettings with = settings(nullptr);
    with.transport = transport;
    all.push_back({transport == std::string("shm") ? "shared-memory" : "messages", std::nullopt,
                   make_communicator(job_.world, *backend_, with)});
  }
  return all;
}

void CollCommand::measure(Op op, CollMode mode, const std::vector<CollCandidate>& candidates) {
  CollPlan plan{.op = op,
                .isolated = mode == CollMode::isolated,
                .before = {},
                .rule = {o_.least, o_.most, o_.max_seconds, o_.ci_width}};
  if (cold_) plan.before = [this] { cold_->pass_s(); };
  std::vector<CollResult> results;
  std::vector<std::int64_t> sizes = o_.bytes;
  if (op == Op::barrier) sizes = {0};
  Progress progress(root(), fmt::format("measuring {}, sizes", op_name(op)));
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    progress.update(static_cast<std::int64_t>(i), std::ssize(sizes));
    const double canary = worst_canary(job_).ratio();
    for (CollSample& sample : measure_collective(job_.control, *backend_, candidates, plan,
                                                 static_cast<std::size_t>(sizes[i]))) {
      results.push_back({std::move(sample), canary});
    }
  }
  progress.finish();
  if (root()) report(results);
}

// Made before, or fitted to all sizes: so these are told of together.
CollModel CollCommand::model_for(const std::vector<CollResult>& results) {
  if (calibration_) {
    context_.model_source = "calibration " + o_.calibration;
    return
        [this, shape = group_shape(job_.world)](const AllReduceChoice& choice, std::size_t bytes) {
          return predicted_all_reduce_s(*calibration_, choice, shape, bytes);
        };
  }
  std::vector<CollSample> samples;
  for (const CollResult& r : results) samples.push_back(r.sample);
  context_.model_source = "fit to this run's all-reduces";
  return fitted_model(samples, job_.world.size());
}

void CollCommand::report(std::vector<CollResult>& results) {
  const CollModel model = model_for(results);
  for (CollResult& r : results) {
    if (const auto& choice = r.sample.choice) {
      if (const auto seconds = model(*choice, r.sample.bytes)) r.sample.model_us = *seconds * 1e6;
    }
    n_wrong_ += r.sample.n_wrong;
    report_->add(context_, r);
  }
}

}  // namespace

std::string coll_text(const CollOptions& o) {
  std::vector<int> modes;
  for (const CollMode mode : o.modes) modes.push_back(static_cast<int>(mode));
  return fmt::format(
      "bench coll --op {} --bytes {} --algorithms {} --mode {} --buffers {} --repetitions {} "
      "--most {} --max-seconds {:g} --ci-width {:g} --emulate {} --calibration {}",
      fmt::join(o.ops, ","), fmt::join(o.bytes, ","), fmt::join(o.algorithms, ","),
      fmt::join(modes, ","), static_cast<int>(o.buffers), o.least, o.most, o.max_seconds,
      o.ci_width, o.emulate, o.calibration);
}

int run_coll(const CollOptions& o, const Job& job) {
  agree(job.control, caught([&] {
          if (job.world.size() > 1) return;
          fail(ExitCode::usage, {.what = "bench coll",
                                 .expected = "2 ranks or more",
                                 .found = "1",
                                 .remedy = "mpirun -n P shardlm bench coll"});
        }));
  CollCommand(o, job).run();
  return 0;
}

}  // namespace shardlm
