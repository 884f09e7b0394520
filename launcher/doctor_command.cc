#include <algorithm>
#include <iostream>

#include "base/error.h"
#include "base/log.h"
#include "comm/agreement.h"
#include "launcher/commands.h"
#include "launcher/cores.h"
#include "launcher/doctor_messages.h"
#include "launcher/doctor_report.h"
#include "launcher/errors.h"
#include "launcher/gpu_messages.h"
#include "launcher/output.h"
#include "launcher/rank_devices.h"

namespace shardlm {
namespace {

// Rank 0's decision, refused or not, as all ranks get it.
std::optional<BackendDecision> decide(const Job& job, const EngineOptions& options,
                                      DoctorReport& report) {
  std::vector<RankGpus> all = gather_gpus(job, options);
  std::vector<std::byte> message;
  agree_with_root(job.control, caught([&] {
                    if (job.world.rank() != 0) return;
                    report.ranks.resize(all.size());
                    for (std::size_t r = 0; r < all.size(); ++r) report.ranks[r].gpus = all[r];
                    try {
                      report.decision = decide_backend(options, all);
                      write(*report.decision, message);
                    } catch (const BackendRefusal& refusal) {
                      report.refusal = refusal;
                    }
                  }));
  job.control.broadcast({SiteKind::load}, message, 0);
  return message.empty() ? std::nullopt : std::optional(read_decision(message));
}

// What this rank's GPU says of its memory. Making a back end is the test whether it can be used.
void ask_device(const BackendDecision& decision, int rank, RankFacts& facts) {
  const auto error = caught([&] {
    facts.device_memory = make_gpu_backend({.device = decision.placement(rank).device})->memory();
  });
  if (error) facts.device_problem = error->what();
}

RankFacts look(const Job& job, const EngineOptions& options,
               const std::optional<BackendDecision>& decision) {
  RankFacts facts;
  facts.machine = read_host_facts();
  facts.threads = options.threads > 0 ? options.threads : auto_threads(job.world.core_share());
  facts.mpi = mpi_library_version();
  if (decision && decision->kind == BackendKind::cuda) {
    ask_device(*decision, job.world.rank(), facts);
  }
  return facts;
}

ModelNeed model_need(const DoctorOptions& o, int ranks) {
  constexpr std::int64_t kBlock = Session::kBlockTokens;
  ModelNeed need{.model = o.engine.model,
                 .config = read_model_config(o.engine.model),
                 .precision = precision_of(o.engine.dtype, o.engine.kv_dtype),
                 .sizes = {},
                 .ranks = {}};
  const std::int64_t tokens = o.kv_tokens > 0 ? o.kv_tokens : need.config.n_positions;
  need.sizes = {.kv_tokens = (tokens + kBlock - 1) / kBlock * kBlock,
                .rows = std::min(tokens, o.engine.prefill_chunk),
                .logit_rows = 1};
  for (const RankShare& share :
       shard_plan(need.config, ranks, need.precision, reduction_of(o.engine.reduction))) {
    need.ranks.push_back(memory_need(need.config, share, need.precision, need.sizes));
  }
  return need;
}

int report_on_root(const DoctorOptions& o, int ranks, std::vector<std::vector<std::byte>>& all,
                   DoctorReport& report) {
  for (std::size_t r = 0; r < all.size(); ++r) {
    RankGpus gpus = std::move(report.ranks[r].gpus);
    report.ranks[r] = read_rank_facts(all[r]);
    report.ranks[r].gpus = std::move(gpus);
  }
  if (!o.engine.model.empty()) report.model = model_need(o, ranks);
  const std::vector<Finding> findings = find_problems(report);
  std::cout << (o.shared.json ? report_json(report, findings) + "\n"
                              : report_text(report, findings));
  finish_output(std::cout);
  return static_cast<int>(exit_code(findings));
}

}  // namespace

int run_doctor(const DoctorOptions& options, const Job& job) {
  DoctorReport report;
  const auto decision = decide(job, options.engine, report);
  if (decision && job.world.rank() == 0) {
    for (const std::string& note : notes_without_effect(options.engine, decision->kind)) {
      log::info(note);
    }
  }
  std::vector<std::byte> mine;
  std::optional<Error> error = caught([&] { write(look(job, options.engine, decision), mine); });
  agree(job.control, error);
  std::vector<std::vector<std::byte>> all;
  job.control.gather({SiteKind::load}, mine, all, 0);
  int code = 0;
  agree_with_root(job.control, caught([&] {
                    if (job.world.rank() == 0)
                      code = report_on_root(options, job.world.size(), all, report);
                  }));
  std::vector<std::byte> told{static_cast<std::byte>(code)};
  job.control.broadcast({SiteKind::load}, told, 0);
  return static_cast<int>(told.front());
}

}  // namespace shardlm
