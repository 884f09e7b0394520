// Findings about hosts and models: each function looks for one kind of trouble.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

#include "comm/call.h"
#include "comm/shm_team.h"
#include "launcher/bytes_text.h"
#include "launcher/doctor_finders.h"
#include "launcher/memory_check.h"

namespace shardlm {
namespace {

using Findings = std::vector<Finding>;

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
constexpr std::uint64_t kEnoughLockedMemory = 64 * kMiB;
constexpr std::uint64_t kNcclSharedMemory = 32 * kMiB;  // of a rank, in /dev/shm

const RankFacts& rank(const DoctorReport& report, int r) {
  return report.ranks[static_cast<std::size_t>(r)];
}

std::string count(std::size_t n, const char* thing) {
  return fmt::format("{} {}{}", n, thing, n == 1 ? "" : "s");
}

void find_refusal(const DoctorReport& report, Findings& found) {
  if (!report.refusal) return;
  Problem problem = report.refusal->problem();
  const std::string remedy = std::exchange(problem.remedy, "");
  found.push_back({describe(problem), remedy, report.refusal->code()});
}

// Ranks that are bound to the very same cores, which are too few for their threads.
void find_crowded_cores(const DoctorReport& report, const std::string& host,
                        const std::vector<int>& ranks, Findings& found) {
  std::map<std::vector<int>, std::vector<int>> bound;
  for (const int r : ranks) bound[rank(report, r).machine.cores].push_back(r);
  for (const auto& [cores, sharers] : bound) {
    if (cores.empty()) continue;  // the machine does not say
    const std::string place = fmt::format("{} on {}", ranks_text(sharers), host);
    const std::string where =
        fmt::format("{} ({})", count(cores.size(), "core"), number_list_text(cores));
    std::size_t threads = 0;
    for (const int r : sharers) threads += static_cast<std::size_t>(rank(report, r).threads);
    if (sharers.size() > cores.size()) {
      found.push_back({fmt::format("{} are bound to the same {}", place, where),
                       "bind each rank to cores of its own (Open MPI: --map-by core), or widely "
                       "(--bind-to none)"});
    } else if (threads > cores.size()) {
      found.push_back({fmt::format("{} start {} on {}", place, count(threads, "thread"), where),
                       fmt::format("use --threads {}, or let mpirun bind wider",
                                   std::max<std::size_t>(1, cores.size() / sharers.size()))});
    }
  }
}

void find_few_cores(const DoctorReport& report, Findings& found) {
  for (const auto& [host, ranks] : ranks_by_host(report)) {
    std::set<int> cores;
    for (const int r : ranks) {
      cores.insert(rank(report, r).machine.cores.begin(), rank(report, r).machine.cores.end());
    }
    if (!cores.empty() && ranks.size() > cores.size()) {
      found.push_back(
          {fmt::format("{} on {}, which gives them {}", count(ranks.size(), "rank"), host,
                       count(cores.size(), "core")),
           fmt::format("start at most {} there, use more hosts, or let mpirun bind wider "
                       "(Open MPI: --bind-to none)",
                       cores.size())});
    } else {
      find_crowded_cores(report, host, ranks, found);
    }
  }
}

void find_small_limits(const DoctorReport& report, Findings& found) {
  const RanksByHost hosts = ranks_by_host(report);
  const bool several = hosts.size() > 1;
  for (const auto& [host, ranks] : hosts) {
    const HostFacts& machine = rank(report, ranks.front()).machine;
    if (several && on_gpus(report) &&
        machine.memlock_bytes.value_or(UINT64_MAX) < kEnoughLockedMemory) {
      found.push_back({fmt::format("a process on {} may lock {} of memory only (RLIMIT_MEMLOCK), "
                                   "and the network between hosts needs more",
                                   host, bytes_text(*machine.memlock_bytes)),
                       "ulimit -l unlimited; docker --ulimit memlock=-1"});
    }
    if (ranks.size() < 2 || !machine.shm_free_bytes) continue;
    const std::uint64_t each = ShmTeam::segment_bytes() + (on_gpus(report) ? kNcclSharedMemory : 0);
    if (*machine.shm_free_bytes >= each * ranks.size()) continue;
    found.push_back({fmt::format("/dev/shm of {} has {} free, and {} want {}", host,
                                 bytes_text(*machine.shm_free_bytes), ranks_text(ranks),
                                 bytes_text(each * ranks.size())),
                     on_gpus(report) ? "make it larger (docker --shm-size=1g)"
                                     : "make it larger (docker --shm-size=1g), or use --comm mpi"});
  }
}

void find_unequal_mpi(const DoctorReport& report, Findings& found) {
  const auto other =
      std::find_if(report.ranks.begin(), report.ranks.end(),
                   [&](const RankFacts& facts) { return facts.mpi != report.ranks[0].mpi; });
  if (other == report.ranks.end()) return;
  found.push_back({fmt::format("{} has {}, and {} has {}", report.ranks[0].gpus.host,
                               report.ranks[0].mpi, other->gpus.host, other->mpi),
                   "use one MPI library everywhere"});
}

// The ranks that fill one memory together: a GPU's, or a host's.
std::vector<int> sharers_of_memory(const DoctorReport& report, int r) {
  if (on_gpus(report)) return report.decision->sharers(r);
  return ranks_by_host(report).at(rank(report, r).gpus.host);
}

void find_large_model(const DoctorReport& report, Findings& found) {
  if (!report.model) return;
  std::set<std::vector<int>> seen;
  for (std::size_t r = 0; r < report.ranks.size(); ++r) {
    const std::optional<std::uint64_t> usable = usable_bytes(report, r);
    if (!usable) continue;
    const std::vector<int> sharers = sharers_of_memory(report, static_cast<int>(r));
    if (!seen.insert(sharers).second) continue;
    const MemoryQuestion question{.config = report.model->config,
                                  .ranks = static_cast<int>(report.ranks.size()),
                                  .sharers = sharers,
                                  .precision = report.model->precision,
                                  .sizes = report.model->sizes};
    const MemoryNeed need = need_on_gpu(question);
    if (static_cast<std::uint64_t>(need.total()) <= *usable) continue;
    found.push_back({fmt::format("{} does not fit: {} on {} need {}, and {} are free",
                                 report.model->model, ranks_text(sharers),
                                 report.ranks[r].gpus.host, need_text(need), bytes_text(*usable)),
                     on_gpus(report) ? memory_remedy(question, *usable)
                                     : "use more hosts, a smaller model, or fewer or shorter texts",
                     ExitCode::resources});
  }
}

}  // namespace

RanksByHost ranks_by_host(const DoctorReport& report) {
  RanksByHost hosts;
  for (std::size_t r = 0; r < report.ranks.size(); ++r) {
    hosts[report.ranks[r].gpus.host].push_back(static_cast<int>(r));
  }
  return hosts;
}

bool on_gpus(const DoctorReport& report) {
  return report.decision && report.decision->kind == BackendKind::cuda;
}

std::vector<Finding> find_problems(const DoctorReport& report) {
  Findings found;
  find_refusal(report, found);
  find_silent_devices(report, found);
  find_large_model(report, found);
  find_gpu_troubles(report, found);
  find_few_cores(report, found);
  find_small_limits(report, found);
  find_unequal_mpi(report, found);
  return found;
}

std::optional<std::uint64_t> usable_bytes(const DoctorReport& report, std::size_t r) {
  const RankFacts& facts = report.ranks[r];
  if (!report.decision) return std::nullopt;
  if (!on_gpus(report)) return facts.machine.usable_bytes();
  if (!facts.device_memory) return std::nullopt;
  return facts.device_memory->free_bytes;
}

ExitCode exit_code(const std::vector<Finding>& findings) {
  const auto first = std::find_if(findings.begin(), findings.end(),
                                  [](const Finding& f) { return f.code != ExitCode::ok; });
  return first == findings.end() ? ExitCode::ok : first->code;
}

}  // namespace shardlm
