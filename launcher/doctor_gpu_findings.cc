// Findings about GPUs: each function looks for one kind of trouble.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

#include "comm/call.h"
#include "launcher/doctor_finders.h"

namespace shardlm {
namespace {

using Findings = std::vector<Finding>;

const RankGpus& gpus_of(const DoctorReport& report, int r) {
  return report.ranks[static_cast<std::size_t>(r)].gpus;
}

// Built for GPUs, but none is seen.
void find_hidden_gpus(const DoctorReport& report, Findings& found) {
  std::map<std::pair<std::string, std::string>, std::vector<int>> reasons;
  for (std::size_t r = 0; r < report.ranks.size(); ++r) {
    const RankGpus& gpus = report.ranks[r].gpus;
    if (gpus.survey.built_in && gpus.survey.devices.empty()) {
      reasons[{gpus.host, gpus.survey.none_because}].push_back(static_cast<int>(r));
    }
  }
  for (const auto& [place, ranks] : reasons) {
    const bool driver = place.second.find("driver") != std::string::npos;
    found.push_back(
        {fmt::format("built with CUDA, but {} on {}: {}", ranks_text(ranks), place.first,
                     place.second),
         driver ? "install NVIDIA's driver on the host, or start the container with its GPUs "
                  "(docker --gpus all); if there is no GPU, nothing need be done"
                : "give the process a GPU (CUDA_VISIBLE_DEVICES, docker --gpus all); if there is "
                  "none, nothing need be done"});
  }
}

void find_shared_gpus(const DoctorReport& report, Findings& found) {
  if (!on_gpus(report) || !report.decision->shared_gpu) return;
  std::set<int> seen;
  for (std::size_t r = 0; r < report.ranks.size(); ++r) {
    const std::vector<int> sharers = report.decision->sharers(static_cast<int>(r));
    if (sharers.size() < 2 || !seen.insert(report.decision->gpus[r]).second) continue;
    found.push_back({fmt::format("{} share a GPU on {}: they take turns", ranks_text(sharers),
                                 report.ranks[r].gpus.host),
                     "for tests only: start one rank a GPU"});
  }
}

std::size_t device_of(const DoctorReport& report, int r) {
  const auto& devices = gpus_of(report, r).survey.devices;
  const int index = report.decision->devices[static_cast<std::size_t>(r)];
  const auto at = std::find_if(devices.begin(), devices.end(),
                               [&](const GpuDevice& d) { return d.index == index; });
  return static_cast<std::size_t>(at - devices.begin());
}

void find_missing_peer_access(const DoctorReport& report, Findings& found) {
  if (!on_gpus(report)) return;
  for (const auto& [host, ranks] : ranks_by_host(report)) {
    std::vector<std::string> pairs;
    for (const int a : ranks) {
      for (const int b : ranks) {
        if (a < b && !can_map(gpus_of(report, a), device_of(report, a), gpus_of(report, b),
                              device_of(report, b))) {
          pairs.push_back(fmt::format("{}-{}", a, b));
        }
      }
    }
    if (pairs.empty()) continue;
    found.push_back({fmt::format("no P2P between the GPUs of ranks {} on {}: sums go through host "
                                 "memory",
                                 fmt::join(pairs, ", "), host),
                     "see nvidia-smi topo -m; let every rank see all GPUs of the host, share the "
                     "host's IPC namespace with the container (docker --ipc=host), turn ACS off"});
  }
}

void find_unequal_gpus(const DoctorReport& report, Findings& found) {
  if (!on_gpus(report)) return;
  std::set<std::string> names;
  for (std::size_t r = 0; r < report.ranks.size(); ++r) {
    const int number = static_cast<int>(r);
    names.insert(gpus_of(report, number).survey.devices[device_of(report, number)].name);
  }
  if (names.size() < 2) return;
  found.push_back({fmt::format("the ranks have different GPUs: {}", fmt::join(names, ", ")),
                   "the slowest sets the pace: use GPUs of one kind"});
}

}  // namespace

void find_silent_devices(const DoctorReport& report, std::vector<Finding>& found) {
  for (std::size_t r = 0; r < report.ranks.size(); ++r) {
    const RankFacts& facts = report.ranks[r];
    if (facts.device_problem.empty()) continue;
    found.push_back({fmt::format("the GPU of rank {} on {} cannot be used: {}", r, facts.gpus.host,
                                 facts.device_problem),
                     "see nvidia-smi on that host", ExitCode::resources});
  }
}

void find_gpu_troubles(const DoctorReport& report, std::vector<Finding>& found) {
  find_hidden_gpus(report, found);
  find_shared_gpus(report, found);
  find_missing_peer_access(report, found);
  find_unequal_gpus(report, found);
}

}  // namespace shardlm
