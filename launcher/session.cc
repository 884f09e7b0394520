#include "launcher/session.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>

#include "base/log.h"
#include "comm/agreement.h"
#include "engine/generate.h"
#include "engine/wire.h"
#include "launcher/allreduce_choice.h"
#include "launcher/allreduce_file.h"
#include "launcher/bytes_text.h"
#include "launcher/cores.h"
#include "launcher/errors.h"
#include "launcher/fault.h"
#include "launcher/memory_check.h"
#include "launcher/progress.h"
#include "model/fake_weights.h"
#include "model/weights.h"

namespace shardlm {

Session::Session(const Job& job, const EngineOptions& options, bool dump_activations)
    : world_(job.world), options_(options), model_dir_(options.model) {
  world_.work_again();
  const CoreShare& cores = job.world.core_share();
  threads_ = options.threads > 0 ? options.threads : auto_threads(cores);
  agree(job.control, caught([&] { fault_ = Fault::from_environment(job.world.rank()); }));
  devices_ = make_rank_devices(job, options, threads_);
  log_choice(devices_, options, threads_text(cores, threads_));
  Backend& backend = *devices_.own;
  observation_ = std::make_unique<Observation>(
      comm(), job.world, options,
      fmt::format("{}, {} ranks", options.model.empty() ? "made-up weights" : options.model,
                  job.world.size()));
  if (dump_activations) dump_ = std::make_unique<ActivationDump>(backend, comm());
  context_ = std::make_unique<Context>(
      Context{backend, comm(), dump_ ? *dump_ : silent_, reduction_of(options.reduction)});
  const Precision types = backend.precision();
  log::verbose(fmt::format("{} on {}; {}; weights {}, activations {}, keys and values {}; {}",
                           comm().describe(), job.world.host_name(), backend.describe(),
                           dtype_name(types.weights), dtype_name(types.activations),
                           dtype_name(types.kv), core_text(cores)));
  if (const std::string warning = core_warning(cores, threads_); !warning.empty()) {
    log::warning(warning);
  }
}

Session::~Session() { world_.watch_end(options_.timeout_s); }

void Session::load(const Prepare& prepare) {
  const double start_s = steady_seconds();
  agree(comm(), caught([&] { open_files(); }));
  agree_on_files();
  Demand demand;
  std::vector<std::uint8_t> allowed;
  agree_with_root(comm(), caught([&] {
                    if (rank() != 0) return;
                    demand = prepare(*this);
                    allowed = allowed_ids();
                  }));
  std::vector<std::byte> message;
  if (rank() == 0) {
    ByteWriter to(message);
    to.put(demand);
    to.put_all(allowed);
  }
  comm().broadcast({SiteKind::load}, message, 0);
  ByteReader from(message);
  demand = from.get<Demand>();
  from.get_all(allowed);
  agree(comm(), caught([&] { check_device_memory(demand); }));
  agree(comm(), caught([&] {
          fault_.at_load();
          load_weights(demand.n_blocks, std::move(allowed));
        }));
  load_s_ = steady_seconds() - start_s;
}

void Session::use_fake_weights(ModelConfig config) {
  config_ = std::move(config);
  fake_ = true;
}

void Session::open_files() {
  if (fake_) return;
  config_ = read_model_config(model_dir_);
  checkpoint_ = Checkpoint::open(model_dir_);
  if (rank() == 0) {
    tokenizer_ = Tokenizer::load(model_dir_);
    for (const std::string& w : config_.warnings) log::warning(w);
    for (const std::string& w : checkpoint_->warnings()) log::warning(w);
  }
}

// Rank 0 compares every rank's digest of the model with its own.
void Session::agree_on_files() {
  if (fake_) return;
  ModelDigest& mine = digest_;
  agree(comm(), caught([&] { mine = digest_model(model_dir_, *checkpoint_); }));
  std::vector<std::vector<std::byte>> all;
  comm().gather({SiteKind::load}, std::as_bytes(std::span(&mine, 1)), all, 0);
  agree_with_root(
      comm(), caught([&] {
        for (std::size_t r = 1; rank() == 0 && r < all.size(); ++r) {
          const auto theirs = ByteReader(all[r]).get<ModelDigest>();
          if (theirs == mine) continue;
          fail(ExitCode::model_files,
               {.what = fmt::format("the model of rank {} differs from rank 0's in its {}", r,
                                    first_difference(mine, theirs)),
                .where = options_.model,
                .remedy = "give every rank the same files"});
        }
      }));
}

// Nothing of the model is on the device yet, on any rank.
void Session::check_device_memory(const Demand& demand) const {
  const std::optional<DeviceMemory> memory = devices_.own->memory();
  if (!memory) return;
  const MemoryQuestion question{.config = config_,
                                .ranks = size(),
                                .sharers = devices_.decision.sharers(rank()),
                                .precision = devices_.own->precision(),
                                .sizes = {.kv_tokens = demand.n_blocks * kBlockTokens,
                                          .rows = demand.rows,
                                          .logit_rows = demand.logit_rows}};
  log::verbose(fmt::format("GPU memory: {} needed, {} free of {}", need_text(need_on_gpu(question)),
                           bytes_text(memory->free_bytes), bytes_text(memory->total_bytes)));
  check_memory(question, *memory, devices_.own->describe());
}

void Session::load_weights(std::int64_t n_blocks, std::vector<std::uint8_t> allowed) {
  if (fake_) {
    FakeWeights weights(config_);
    make_model_of(weights);
  } else {
    CheckpointWeights weights(*checkpoint_, config_);
    make_model_of(weights);
    checkpoint_->check_unchanged();
    report_weights(weights);
  }
  n_blocks_ = n_blocks;
  executor_ =
      std::make_unique<Executor>(*context_, *model_, model_->make_cache(n_blocks, kBlockTokens),
                                 std::move(allowed), fault_.step_hook());
}

void Session::make_model_of(WeightSource& weights) {
  Progress progress(rank() == 0, "loading layers");
  model_ = make_model(config_, weights, *context_,
                      [&](std::int64_t done, std::int64_t total) { progress.update(done, total); });
  progress.finish();
}

void Session::report_weights(const CheckpointWeights& weights) const {
  log::verbose(fmt::format("weights: {} bytes read of {} in the files, {} bytes kept",
                           weights.bytes_read(), checkpoint_->file_bytes(), weights.bytes_kept()));
  if (const std::string got = devices_.own->describe_weights(); !got.empty()) log::verbose(got);
  const Range ids = model_->vocab_ids();
  if (weights.lm_head_differs(ids.begin, ids.end)) {
    log::warning(
        "lm_head.weight differs from wte.weight and is not used, since the model is tied "
        "(tie_word_embeddings true or absent in config.json)");
  }
  const std::vector<std::string> unused = weights.unused();
  if (rank() == 0 && !unused.empty()) {
    log::warning(fmt::format("tensors in the files that the model does not use: {}",
                             fmt::join(unused, ", ")));
  }
}

std::vector<std::uint8_t> Session::allowed_ids() const {
  std::vector<std::uint8_t> allowed(static_cast<std::size_t>(config_.vocab_size), 1);
  for (std::size_t id = 0; tokenizer_ && id < allowed.size(); ++id) {
    allowed[id] = tokenizer_->has(static_cast<std::int32_t>(id)) ? 1 : 0;
  }
  return allowed;
}

std::optional<std::int32_t> Session::end_of_text() const {
  if (config_.eos_token_id) return config_.eos_token_id;
  return start_of_text();
}

std::optional<std::int32_t> Session::start_of_text() const {
  const auto id = tokenizer_ ? tokenizer_->end_of_text() : std::nullopt;
  return id && *id < config_.vocab_size ? id : std::nullopt;
}

std::string Session::model_hash() const {
  if (fake_) return "";
  return environment_hash({{"config", fmt::format("{:x}", digest_.config)},
                           {"tensors", fmt::format("{:x}", digest_.tensor_table)},
                           {"bytes", fmt::format("{}", digest_.file_bytes)},
                           {"samples", fmt::format("{:x}", digest_.samples)}});
}

std::unique_ptr<PartRecorder> Session::record_parts(std::size_t calls, std::size_t steps) {
  return std::make_unique<PartRecorder>(comm(), rank_identity(world_), calls, steps);
}

int Session::run(const std::function<void(Coordinator&)>& body) {
  return run_parts([&] { return part(body); });
}

int Session::part(const std::function<void(Coordinator&)>& body) {
  return rank() == 0 ? coordinate(body) : serve(comm(), *executor_);
}

int Session::run_parts(const std::function<int()>& parts) {
  const auto measure = [this] { return quality_ = measure_quality(); };
  const bool measurable = rounds() && options_.compute != ComputeChoice::none;
  observation_->begin_run(config_, measurable ? std::function(measure) : nullptr);
  const int code = parts();
  if (code == 0) observation_->finish();
  const bool reported = options_.observe.report && comm().log() != nullptr;
  if (code == 0 && measurable && want_quality_ && !reported) measure();
  fault_.at_end();
  return code;
}

Exactness Session::exactness() const {
  return comm().exactness(options_.reduction == ReductionChoice::exact);
}

bool Session::rounds() const { return size() > 1 && exactness() == Exactness::approximate; }

std::vector<std::string> Session::warnings() const {
  std::vector<std::string> all = result_warnings(options_);
  if (rounds()) {
    all.push_back(fmt::format(
        "{}: sums are rounded on their way, so that results are approximate; --comm-report says "
        "by how much",
        rounding_text(options_)));
  }
  return all;
}

void Session::warn_of_rounding() const {
  if (rank() == 0 && rounds() && !options_.observe.report) log::warning(warnings().back());
}

std::optional<WireQuality> Session::measure_quality() {
  QualityText text;
  agree_with_root(comm(), caught([&] {
                    const std::int64_t room =
                        std::min(n_blocks_ * kBlockTokens, config_.n_positions);
                    if (rank() == 0) text = quality_ids(tokenizer_.get(), config_.vocab_size, room);
                  }));
  return measure_wire_quality(*context_, *executor_, model_->vocab_ids(), text,
                              {.block_tokens = kBlockTokens, .asked = rounding_text(options_)});
}

int Session::coordinate(const std::function<void(Coordinator&)>& body) {
  Coordinator coordinator(comm(), *executor_);
  if (observation_->live()) coordinator.after_steps([this] { observation_->step_ended(); });
  const std::optional<Error> error = caught([&] { body(coordinator); });
  if (error && coordinator.in_step()) throw *error;  // the others cannot be told: main ends the job
  const ExitCode code = error ? error->code() : ExitCode::ok;
  if (error) log::error(error->what());
  coordinator.stop(static_cast<int>(code));
  return static_cast<int>(code);
}

}  // namespace shardlm
