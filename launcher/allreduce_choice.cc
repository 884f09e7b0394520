#include "launcher/allreduce_choice.h"

#include <fmt/format.h>

#include <filesystem>

#include "base/error.h"
#include "comm/agreement.h"
#include "launcher/allreduce_file.h"
#include "launcher/backend_options.h"
#include "launcher/errors.h"

namespace shardlm {
namespace {

namespace fs = std::filesystem;

// Rank 0's part of auto and table. An empty table: the defaults.
AllReduceDecision look_for_file(const EngineOptions& options, const std::string& hash) {
  const CommunicationOptions& o = options.communication;
  const bool must = o.allreduce == "table";
  const fs::path path = o.table.empty() ? default_allreduce_file(hash) : fs::path(o.table);
  if (path.empty() || (!fs::exists(path) && !must && o.table.empty()))
    return {{}, "defaults (nothing measured: shardlm tune)"};
  const AllReduceFile file = read_allreduce_file(path);
  if (file.hash == hash) return {file.table, fmt::format("measured ({})", path.string())};
  if (must) {
    fail(ExitCode::usage, {.what = "the all-reduce table was measured in another environment",
                           .expected = hash,
                           .found = file.hash,
                           .where = path.string(),
                           .remedy = "run shardlm tune with the same mpirun options"});
  }
  return {{}, fmt::format("defaults ({} is of another environment)", path.string())};
}

std::string told(const Job& job, const std::string& of_root) {
  std::vector<std::byte> message;
  for (const char c : of_root) message.push_back(static_cast<std::byte>(c));
  job.control.broadcast({SiteKind::load}, message, 0);
  return {reinterpret_cast<const char*>(message.data()), message.size()};
}

}  // namespace

AllReduceDecision decide_allreduce(const Job& job, const EngineOptions& options) {
  const CommunicationOptions& o = options.communication;
  if (o.allreduce != "auto" && o.allreduce != "table")
    return {parse_algorithm_table(o.allreduce), "as asked"};
  if (job.world.size() == 1) return {{}, "none to take"};
  if (options.comm == CommChoice::mpi) return {{}, "defaults (of --comm mpi)"};
  if (o.wire != WireFormat::f32) return {{}, "defaults (what is measured is --wire f32)"};
  const std::string hash = environment_hash(allreduce_environment(job));
  AllReduceDecision decision;
  agree_with_root(job.control, caught([&] {
                    if (job.world.rank() == 0) decision = look_for_file(options, hash);
                  }));
  const std::string rules = told(job, decision.table.text());
  if (!rules.empty()) decision.table = parse_algorithm_table(rules);
  return decision;
}

std::string rounding_text(const EngineOptions& options) {
  const CommunicationOptions& o = options.communication;
  std::string text;
  if (o.wire != WireFormat::f32) text = fmt::format("--wire {}", name(o.wire));
  if (o.allreduce != "auto")
    text += fmt::format("{}--allreduce {}", text.empty() ? "" : " ", o.allreduce);
  return text.empty() ? "the measured all-reduces" : text;
}

std::string communication_text(const EngineOptions& options) {
  const CommunicationOptions& c = options.communication;
  const ObserveOptions& o = options.observe;
  std::string text = fmt::format(" --allreduce {} --wire {} --overlap {}", c.allreduce,
                                 name(c.wire), overlap_name(c.overlap));
  if (!c.emulate.empty()) text += " --emulate " + c.emulate;
  if (c.check_collectives) text += " --check-collectives";
  if (o.report) text += " --comm-report";
  if (!o.trace.empty()) text += " --trace";
  if (o.live) text += " --live";
  return text + fmt::format(" --comm-log {}", o.log);
}

}  // namespace shardlm
