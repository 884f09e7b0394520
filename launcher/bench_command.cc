#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iostream>

#include "backend/cpu/read_bandwidth.h"
#include "base/error.h"
#include "comm/agreement.h"
#include "engine/bench.h"
#include "engine/generate.h"
#include "launcher/allreduce_file.h"
#include "launcher/backend_options.h"
#include "launcher/bench_options.h"
#include "launcher/bench_report.h"
#include "launcher/bench_run.h"
#include "launcher/commands.h"
#include "launcher/environment_record.h"
#include "launcher/errors.h"
#include "launcher/model_shape.h"
#include "launcher/output.h"
#include "launcher/rank_values.h"
#include "launcher/session.h"

namespace shardlm {
namespace {

// The memory whose reading is timed is as large as what a step reads, within these limits: below,
// it would stay in a core's own cache; above, it is main memory whatever its size.
constexpr std::int64_t kLeastReadBytes = std::int64_t{32} << 20,
                       kMostReadBytes = std::int64_t{1} << 30;
constexpr int kLeastPasses = 7;
constexpr double kReadSeconds = 0.2;

std::vector<BenchTest> tests_of(const BenchOptions& o) {
  using Kind = BenchTest::Kind;
  std::vector<BenchTest> tests;
  for (const std::int64_t batch : o.batch) {
    for (const std::int64_t n : o.prompt) {
      if (n > 0) tests.push_back({Kind::prefill, n, batch});
    }
    for (const std::int64_t n : o.generate) {
      if (n > 0) tests.push_back({Kind::decode, n, batch});
    }
  }
  return tests;
}

// GB/s that the ranks together read in one pass, each its own memory at the same time; on rank 0.
double read_pass(Communicator& control, ReadBandwidth& memory) {
  control.barrier({SiteKind::load});
  const double mine = static_cast<double>(memory.bytes()) * 1e-9 / memory.pass_s();
  double sum = 0;
  for (const double rate : values_of_ranks(control, mine)) sum += rate;
  return sum;
}

// Reads `bytes` on each rank for a while, and adds the rate of each pass to rank 0's `rates`.
void measure_read(Communicator& control, std::size_t bytes, int threads,
                  std::vector<double>& rates) {
  std::optional<ReadBandwidth> memory;
  agree(control, caught([&] { memory.emplace(bytes, threads); }));
  read_pass(control, *memory);  // the first one does not count
  const double start_s = steady_seconds();
  std::vector<std::byte> more{std::byte{1}};
  for (int pass = 1; more[0] != std::byte{0}; ++pass) {
    rates.push_back(read_pass(control, *memory));
    const bool enough = pass >= kLeastPasses && steady_seconds() - start_s >= kReadSeconds;
    more.assign(1, std::byte{enough ? std::uint8_t{0} : std::uint8_t{1}});
    control.broadcast({SiteKind::load}, more, 0);
  }
}

std::uint64_t sum_on_root(Communicator& control, std::uint64_t mine) {
  std::uint64_t sum = 0;
  for (const std::uint64_t bytes : values_of_ranks(control, mine)) sum += bytes;
  return sum;
}

// Of made-up weights: what they are made of.
std::string shape_hash(const ModelConfig& c) {
  return environment_hash(
      {{"fake_weights", fmt::format("{} {} {} {} {} {}", c.n_layer, c.n_embd, c.n_head, c.n_inner,
                                    c.n_positions, c.vocab_size)}});
}

/// All measurements of one run, rank by rank the same calls.
class BenchCommand {
 public:
  BenchCommand(const BenchOptions& options, const Job& job) : o_(options), job_(job) {}

  int run();

 private:
  void read_config();
  int measure(const EngineOptions& engine);
  Demand prepare() const;
  std::size_t read_bytes(const Session& session) const;
  int run_model(Session& session);
  BenchResult result_of(Session& session, std::size_t test) const;
  void report();
  BenchSetup setup() const;
  bool root() const { return job_.world.rank() == 0; }

  const BenchOptions& o_;
  const Job& job_;
  std::vector<BenchTest> tests_;
  BenchContext context_;
  std::unique_ptr<BenchReport> report_;
  // Of the model that is loaded:
  EngineOptions engine_;
  std::uint64_t weight_bytes_ = 0;
  bool oversubscribed_ = false;
  std::vector<BenchResult> results_;   // one a test
  std::vector<double> read_gb_per_s_;  // one a pass; rank 0's
};

int BenchCommand::run() {
  agree(job_.control, caught([&] { read_config(); }));
  context_.environment = environment_record(job_);
  if (root()) {
    report_ = make_bench_report(o_.shared.json ? BenchFormat::json : o_.format, std::cout);
    report_->begin(context_);
  }
  for (const EngineOptions& engine : bench_engines(o_)) {
    engine_ = engine;
    if (const int code = measure(engine); code != 0) return code;
  }
  agree_with_root(job_.control, caught([&] {
                    if (!root()) return;
                    report_->end(context_);
                    finish_output(std::cout);
                  }));
  return 0;
}

void BenchCommand::read_config() {
  tests_ = tests_of(o_);
  context_ = {.environment = {},
              .source = o_.shape.empty() ? o_.engine.model : o_.shape,
              .fake_weights = !o_.shape.empty(),
              .config = o_.shape.empty() ? read_model_config(o_.engine.model)
                                         : parse_shape(o_.shape, "--shape"),
              .ranks = job_.world.size(),
              .ranks_of_nodes = ranks_of_nodes(job_.world),
              .prefill_chunk = o_.engine.prefill_chunk,
              .comm = comm_name(o_.engine.comm),
              .reduction = reduction_name(o_.engine.reduction),
              .compute = compute_name(o_.engine.compute),
              .warnings = result_warnings(o_.engine)};
  for (const BenchTest& test : tests_) check_fits(test, context_.config.n_positions);
}

BenchSetup BenchCommand::setup() const {
  return {.n_positions = context_.config.n_positions,
          .vocab_size = context_.config.vocab_size,
          .block_tokens = Session::kBlockTokens,
          .prefill_chunk = o_.engine.prefill_chunk};
}

Demand BenchCommand::prepare() const {
  Demand most;
  for (const BenchTest& test : tests_) {
    most.n_blocks = std::max(most.n_blocks, bench_blocks(test, setup()));
    most.rows = std::max(most.rows, bench_rows(test, setup()));
    most.logit_rows = std::max(most.logit_rows, test.batch);
  }
  return most;
}

std::size_t BenchCommand::read_bytes(const Session& session) const {
  const auto shares = shard_plan(context_.config, session.size(), session.precision(),
                                 reduction_of(o_.engine.reduction));
  const std::int64_t bytes = shares[static_cast<std::size_t>(session.rank())].weight_bytes;
  return static_cast<std::size_t>(std::clamp(bytes, kLeastReadBytes, kMostReadBytes));
}

// The limit is measured before the weights are there and after they are gone: so it never doubles
// the memory, and a drift of the machine shows in it too.
int BenchCommand::measure(const EngineOptions& engine) {
  results_.assign(tests_.size(), {});
  read_gb_per_s_.clear();
  std::optional<std::size_t> bytes;
  int threads = 1;
  int code = 0;
  {
    Session session(job_, engine, /*dump_activations=*/false);
    threads = session.threads();
    const bool reads = engine.compute == ComputeChoice::normal;
    if (session.backend().kind == BackendKind::cpu && reads) bytes = read_bytes(session);
    if (bytes) measure_read(job_.control, *bytes, threads, read_gb_per_s_);
    code = run_model(session);
  }
  if (code != 0) return code;
  if (bytes) measure_read(job_.control, *bytes, threads, read_gb_per_s_);
  agree_with_root(job_.control, caught([&] {
                    if (root()) report();
                  }));
  return 0;
}

int BenchCommand::run_model(Session& session) {
  if (context_.fake_weights) session.use_fake_weights(context_.config);
  session.load([&](Session&) { return prepare(); });
  weight_bytes_ = sum_on_root(job_.control, session.model().step_weight_bytes());
  oversubscribed_ = oversubscribed(job_, session.threads());
  BenchRun measured(o_, job_, session, tests_, setup());
  session.want_wire_quality();
  const int code = session.run_parts([&] { return measured.run(); });
  for (std::size_t i = 0; i < tests_.size() && code == 0; ++i) {
    results_[i] = result_of(session, i);
    results_[i].joules_source = measured.joules_source();
    results_[i].samples = measured.samples()[i];
  }
  return code;
}

BenchResult BenchCommand::result_of(Session& session, std::size_t test) const {
  const Precision types = session.precision();
  const CommunicationOptions& asked = engine_.communication;
  return {.test = tests_[test],
          .dtype = dtype_name(types.weights),
          .kv_dtype = dtype_name(types.kv),
          .threads = session.threads(),
          .allreduce = asked.allreduce,
          .wire = std::string(name(asked.wire)),
          .overlap = overlap_name(asked.overlap),
          .emulate = asked.emulate,
          .backend = backend_name(session.backend().kind),
          .backend_text = session.backend_text(),
          .comm_text = session.comm_text(),
          .exactness = std::string(name(session.exactness())),
          .quality = session.wire_quality(),
          .shared_gpu = session.backend().shared_gpu,
          .load_s = session.load_s(),
          .weight_bytes = weight_bytes_,
          .read_gb_per_s = std::nullopt,
          .oversubscribed = oversubscribed_,
          .joules_source = {},
          .allreduce_source = session.allreduce_source(),
          .model_hash = context_.fake_weights ? shape_hash(context_.config) : session.model_hash(),
          .samples = {}};
}

void BenchCommand::report() {
  for (BenchResult& result : results_) {
    if (!read_gb_per_s_.empty()) result.read_gb_per_s = estimate_median(read_gb_per_s_).median;
    report_->add(context_, result);
  }
  if (!std::cout) finish_output(std::cout);
}

}  // namespace

std::string bench_text(const BenchOptions& o) {
  std::vector<std::string> dtypes;
  for (const DTypeChoice dtype : o.dtypes)
    dtypes.push_back(dtype_name(precision_of(dtype, o.engine.kv_dtype).weights));
  return fmt::format(
      " --shape {} --dtype {} --threads {} --allreduce {} --prompt {} --generate {} --batch {} "
      "--repetitions {} --most {} --max-seconds {:g} --ci-width {:g} --warmup {}",
      o.shape.empty() ? "none" : o.shape, fmt::join(dtypes, ","), fmt::join(o.threads, ","),
      fmt::join(o.allreduces, ";"), fmt::join(o.prompt, ","), fmt::join(o.generate, ","),
      fmt::join(o.batch, ","), o.repetitions, o.most, o.max_seconds, o.ci_width, o.warmup);
}

int run_bench(const BenchOptions& options, const Job& job) {
  return BenchCommand(options, job).run();
}

}  // namespace shardlm
