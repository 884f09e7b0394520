#include "launcher/rank_devices.h"

#include <fmt/format.h>

#include <array>

#include "backend/cpu/cpu_backend.h"
#include "backend/null/null_backend.h"
#include "base/log.h"
#include "comm/agreement.h"
#include "comm/checked_communicator.h"
#include "comm/make_communicator.h"
#include "comm/no_sum_communicator.h"
#include "launcher/allreduce_choice.h"
#include "launcher/errors.h"
#include "launcher/gpu_messages.h"
#include "study/emulated_load.h"

namespace shardlm {
namespace {

RankGpus look(const MpiWorld& world, BackendChoice backend) {
  RankGpus mine{.host = world.host_name(), .node_rank = world.node_rank(), .survey = {}};
  if (backend == BackendChoice::cpu) {
    mine.survey.none_because = "not asked: --backend cpu";
  } else {
    mine.survey = survey_gpus();
  }
  return mine;
}

void make_backends(RankDevices& devices, const EngineOptions& options, int rank, int threads) {
  if (devices.decision.kind == BackendKind::cpu) {
    const Precision precision = on_cpu(precision_of(options.dtype, options.kv_dtype));
    const bool exact = options.reduction == ReductionChoice::exact;
    devices.own = options.compute == ComputeChoice::none
                      ? make_null_backend(precision)
                      : make_cpu_backend(threads, precision,
                                         exact ? RowBits::always_same : RowBits::of_a_kernel);
    return;
  }
  devices.host = make_cpu_backend(threads);
  devices.own = make_gpu_backend({.device = devices.decision.placement(rank).device,
                                  .precision = precision_of(options.dtype, options.kv_dtype),
                                  .graphs = options.graphs.value_or(true)});
}

Overlap overlap_of(OverlapChoice choice) {
  constexpr std::array values = {Overlap::none, Overlap::poll, Overlap::thread};
  return values.at(static_cast<std::size_t>(choice));
}

Emulation emulation_of(const EngineOptions& options) {
  const std::string& text = options.communication.emulate;
  return text.empty() ? Emulation{} : parse_emulation(text);
}

// What is asked for around the communicator.
void add_layers(RankDevices& devices, const EngineOptions& options, const Job& job) {
  const Emulation emulation = emulation_of(options);
  if (emulation.slows()) {
    devices.clock = make_network_clock(job.world.oversubscribed());
    devices.slowed = emulate_slow_rank(*devices.comm, emulation, *devices.clock);
    devices.comm = devices.slowed.get();
  }
  if (options.communication.check_collectives && devices.comm->size() > 1) {
    devices.checked = std::make_unique<CheckedCommunicator>(*devices.comm, job.control);
    devices.comm = devices.checked.get();
  }
}

std::unique_ptr<Communicator> make_comm(const RankDevices& devices, const EngineOptions& options,
                                        const AllReduceDecision& allreduce, const MpiWorld& world) {
  if (options.comm == CommChoice::none) {  // what is no sum goes as with auto
    EngineOptions others = options;
    others.comm = CommChoice::automatic;
    return std::make_unique<NoSumCommunicator>(make_comm(devices, others, allreduce, world),
                                               *devices.own);
  }
  const std::string name = comm_name(options.comm);
  CommSettings settings{
      .deadlines = {.collective_s = options.timeout_s, .load_s = options.load_timeout_s}};
  if (devices.decision.kind == BackendKind::cuda) {
    return make_gpu_communicator(make_communicator(world, *devices.host, settings), *devices.own,
                                 name, devices.decision.placement(world.rank()),
                                 settings.deadlines);
  }
  settings.transport = name;
  settings.table = allreduce.table;
  settings.wire = options.communication.wire;
  settings.overlap = overlap_of(options.communication.overlap);
  settings.emulation = emulation_of(options);
  settings.load = [shape = group_shape(world)](const AllReduceChoice& choice, std::size_t bytes) {
    return emulated_load(choice, shape, bytes);
  };
  return make_communicator(world, *devices.own, settings);
}

}  // namespace

std::vector<RankGpus> gather_gpus(const Job& job, const EngineOptions& options) {
  std::vector<std::byte> mine;
  write(look(job.world, options.backend), mine);
  std::vector<std::vector<std::byte>> all;
  job.control.gather({SiteKind::load}, mine, all, 0);
  std::vector<RankGpus> ranks;
  for (const auto& bytes : all) ranks.push_back(read_rank_gpus(bytes));
  return ranks;
}

BackendDecision agree_on_backend(const Job& job, const EngineOptions& options) {
  const std::vector<RankGpus> all = gather_gpus(job, options);
  std::vector<std::byte> message;
  agree_with_root(job.control, caught([&] {
                    if (job.world.rank() == 0) write(decide_backend(options, all), message);
                  }));
  job.control.broadcast({SiteKind::load}, message, 0);
  return read_decision(message);
}

RankDevices make_rank_devices(const Job& job, const EngineOptions& asked, int threads) {
  EngineOptions options = asked;
  // Exact sums and messages without arithmetic are the CPU's: auto looks for no GPU then.
  if (options.backend == BackendChoice::automatic &&
      (options.reduction == ReductionChoice::exact || options.compute == ComputeChoice::none)) {
    options.backend = BackendChoice::cpu;
  }
  RankDevices devices;
  devices.decision = agree_on_backend(job, options);
  agree(job.control, caught([&] { make_backends(devices, options, job.world.rank(), threads); }));
  AllReduceDecision allreduce;
  if (devices.decision.kind == BackendKind::cpu) allreduce = decide_allreduce(job, options);
  agree(job.control,
        caught([&] { devices.base = make_comm(devices, options, allreduce, job.world); }));
  devices.allreduce_source = allreduce.source;
  devices.comm = devices.base.get();
  add_layers(devices, options, job);
  return devices;
}

void log_choice(const RankDevices& devices, const EngineOptions& options,
                const std::string& threads) {
  if (devices.comm->rank() != 0) return;
  std::string line = decision_line(devices.decision, devices.comm->describe());
  if (devices.decision.kind == BackendKind::cpu) {
    if (devices.comm->size() > 1) {
      line +=
          fmt::format("; all-reduce: {} ({})", devices.comm->describe(), devices.allreduce_source);
    }
    line += "; " + threads;
  }
  options.backend == BackendChoice::automatic ? log::info(line) : log::verbose(line);
  for (const std::string& note : notes_without_effect(options, devices.decision.kind)) {
    log::info(note);
  }
  for (const std::string& warning : result_warnings(options)) log::warning(warning);
  const std::string shared = shared_gpu_line(devices.decision);
  if (!shared.empty()) log::warning(shared);
}

}  // namespace shardlm
