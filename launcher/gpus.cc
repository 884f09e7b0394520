#include "launcher/gpus.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/error.h"
#include "comm/call.h"
#include "launcher/gpu_assignment.h"

namespace shardlm {
namespace {

std::string count(std::size_t n, const char* thing) {
  return fmt::format("{} {}{}", n, thing, n == 1 ? "" : "s");
}

// Ranks that have one thing to say on one host, by their lowest rank.
struct Complaint {
  std::string host, text;
  std::vector<int> ranks;
};

void add(std::vector<Complaint>& list, int rank, const std::string& host, const std::string& text) {
  for (Complaint& c : list) {
    if (c.host == host && c.text == text) return c.ranks.push_back(rank);
  }
  list.push_back({host, text, {rank}});
}

std::string complaint_text(const Complaint& c) {
  return fmt::format("{} on {}: {}", ranks_text(c.ranks), c.host, c.text);
}

std::vector<Complaint> ranks_without_gpu(std::span<const RankGpus> all) {
  std::vector<Complaint> without;
  for (std::size_t r = 0; r < all.size(); ++r) {
    const GpuSurvey& survey = all[r].survey;
    if (survey.devices.empty()) {
      add(without, static_cast<int>(r), all[r].host, survey.none_because);
    }
  }
  return without;
}

std::string why_no_cuda(std::span<const RankGpus> all, const std::vector<Complaint>& without) {
  const bool everyone = without.front().ranks.size() == all.size();
  return everyone ? without.front().text : complaint_text(without.front());
}

[[noreturn]] void refuse_missing_gpus(std::span<const RankGpus> all,
                                      const std::vector<Complaint>& without) {
  std::vector<std::string> texts;
  for (const Complaint& c : without) texts.push_back(complaint_text(c));
  const bool built = std::all_of(all.begin(), all.end(),
                                 [](const RankGpus& rank) { return rank.survey.built_in; });
  refuse(ExitCode::resources,
         {.expected = "a GPU for every rank",
          .found = fmt::format("none for {}", fmt::join(texts, ", nor for ")),
          .where = "--backend cuda",
          .remedy = built ? "ask shardlm doctor what a rank sees, or use --backend cpu"
                          : "use a program built with CUDA on every host, or --backend cpu"});
}

// NCCL would hang or fail in its own words.
void check_versions(std::span<const RankGpus> all) {
  std::vector<Complaint> versions;
  for (std::size_t r = 0; r < all.size(); ++r) {
    add(versions, static_cast<int>(r), all[r].host, all[r].survey.versions);
  }
  const std::string& first = versions.front().text;
  const auto other = std::find_if(versions.begin(), versions.end(),
                                  [&](const Complaint& c) { return c.text != first; });
  if (other == versions.end()) return;
  refuse(
      ExitCode::resources,
      {.what = "the ranks' CUDA drivers or libraries differ",
       .expected = fmt::format("{} as on {}", first, all[0].host),
       .found = complaint_text(*other),
       .remedy = "give every host the same driver and the same container, or use --backend cpu"});
}

// The ranks share one machine, as far as names and numbers say.
bool on_one_node(std::span<const RankGpus> all) {
  std::set<int> places;
  for (const RankGpus& rank : all) {
    if (rank.host != all[0].host || !places.insert(rank.node_rank).second) return false;
  }
  return true;
}

bool all_reach_each_other(std::span<const RankGpus> all, const std::vector<int>& devices) {
  for (std::size_t a = 0; a < all.size(); ++a) {
    for (std::size_t b = 0; b < all.size(); ++b) {
      if (!can_map(all[a], static_cast<std::size_t>(devices[a]), all[b],
                   static_cast<std::size_t>(devices[b]))) {
        return false;
      }
    }
  }
  return true;
}

// "4 GPUs on 1 host (NVIDIA H200)", with the numbers of each kind if there are several.
std::string summary_of(std::span<const RankGpus> all, const GpuAssignment& assignment) {
  std::map<std::string, std::size_t> kinds;
  std::set<std::string> hosts;
  std::set<int> seen;
  for (std::size_t r = 0; r < all.size(); ++r) {
    hosts.insert(all[r].host);
    if (!seen.insert(assignment.gpus[r]).second) continue;
    ++kinds[all[r].survey.devices[static_cast<std::size_t>(assignment.devices[r])].name];
  }
  std::vector<std::string> names;
  for (const auto& [name, n] : kinds) {
    names.push_back(kinds.size() == 1 ? name : fmt::format("{} {}", n, name));
  }
  return fmt::format(
      "{}{} on {} ({})", assignment.shared ? fmt::format("{} ranks share ", all.size()) : "",
      count(seen.size(), "GPU"), count(hosts.size(), "host"), fmt::join(names, ", "));
}

BackendDecision take_cpu(const EngineOptions& options, std::string because) {
  check_fit(options, BackendKind::cpu, because);
  BackendDecision decision;
  decision.because = std::move(because);
  return decision;
}

BackendDecision take_cuda(const EngineOptions& options, std::span<const RankGpus> all) {
  check_fit(options, BackendKind::cuda,
            options.backend == BackendChoice::cuda ? "" : "every rank has a GPU");
  check_versions(all);
  const GpuAssignment assignment = assign_gpus(all);
  if (assignment.shared && !options.allow_shared_gpu) refuse_sharing(all, assignment);
  if (assignment.shared && options.comm == CommChoice::nccl) {
    refuse(ExitCode::usage, {.what = "NCCL takes one rank a GPU, and ranks share one here",
                             .where = "--comm nccl",
                             .remedy = "use --comm ipc or staged, or fewer ranks"});
  }
  BackendDecision decision{.kind = BackendKind::cuda,
                           .because = {},
                           .summary = summary_of(all, assignment),
                           .devices = {},
                           .gpus = assignment.gpus,
                           .one_node = on_one_node(all),
                           .peer_access = all_reach_each_other(all, assignment.devices),
                           .shared_gpu = assignment.shared};
  for (std::size_t r = 0; r < all.size(); ++r) {
    const auto index = static_cast<std::size_t>(assignment.devices[r]);
    decision.devices.push_back(all[r].survey.devices[index].index);
  }
  return decision;
}

}  // namespace

GpuPlacement BackendDecision::placement(int rank) const {
  return {.one_node = one_node,
          .peer_access = peer_access,
          .shared_gpu = shared_gpu,
          .device = devices.at(static_cast<std::size_t>(rank))};
}

std::vector<int> BackendDecision::sharers(int rank) const {
  std::vector<int> ranks;
  for (std::size_t r = 0; r < gpus.size(); ++r) {
    if (gpus[r] == gpus.at(static_cast<std::size_t>(rank))) ranks.push_back(static_cast<int>(r));
  }
  return ranks;
}

BackendDecision decide_backend(const EngineOptions& options, std::span<const RankGpus> all) {
  check(!all.empty(), "decide_backend: at least one rank");
  if (options.backend == BackendChoice::cpu) return take_cpu(options, {});
  const std::vector<Complaint> without = ranks_without_gpu(all);
  if (without.empty()) return take_cuda(options, all);
  if (options.backend == BackendChoice::cuda) refuse_missing_gpus(all, without);
  return take_cpu(options, why_no_cuda(all, without));
}

std::string decision_line(const BackendDecision& decision, const std::string& all_reduce) {
  if (decision.kind == BackendKind::cuda) {
    return fmt::format("backend: cuda, {}; all-reduce: {}", decision.summary, all_reduce);
  }
  if (decision.because.empty()) return "backend: cpu";
  return fmt::format("backend: cpu ({})", decision.because);
}

std::string shared_gpu_line(const BackendDecision& decision) {
  if (!decision.shared_gpu) return {};
  return fmt::format(
      "{}, which take turns on it: results are right, but times say nothing of a GPU for each rank",
      decision.summary);
}

bool same_gpu(const std::string& host_a, const GpuDevice& a, const std::string& host_b,
              const GpuDevice& b) {
  if (!a.uuid.empty() && a.uuid == b.uuid) return true;
  return host_a == host_b && a.bus_id == b.bus_id;
}

bool can_map(const RankGpus& rank_a, std::size_t a, const RankGpus& rank_b, std::size_t b) {
  const GpuDevice& mine = rank_a.survey.devices[a];
  const GpuDevice& theirs = rank_b.survey.devices[b];
  if (same_gpu(rank_a.host, mine, rank_b.host, theirs)) return true;
  if (rank_a.host != rank_b.host) return false;
  return std::any_of(rank_a.survey.devices.begin(), rank_a.survey.devices.end(),
                     [&](const GpuDevice& seen) {
                       return same_gpu(rank_a.host, seen, rank_b.host, theirs) &&
                              std::count(mine.peers.begin(), mine.peers.end(), seen.index) > 0;
                     });
}

}  // namespace shardlm
