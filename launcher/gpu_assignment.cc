#include "launcher/gpu_assignment.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "comm/call.h"

namespace shardlm {
namespace {

struct Gpu {
  std::string host;
  const GpuDevice* device;
};

bool same(const Gpu& a, const Gpu& b) { return same_gpu(a.host, *a.device, b.host, *b.device); }

// The place of the GPU in the list, or the list's size.
std::size_t find(const std::vector<Gpu>& list, const Gpu& gpu) {
  const auto at =
      std::find_if(list.begin(), list.end(), [&](const Gpu& g) { return same(g, gpu); });
  return static_cast<std::size_t>(at - list.begin());
}

Gpu gpu_of(const RankGpus& rank, std::size_t device) {
  return {rank.host, &rank.survey.devices[device]};
}

// Every GPU of a host that any of its ranks sees, once.
std::vector<Gpu> gpus_of_host(std::span<const RankGpus> all, const std::string& host) {
  std::vector<Gpu> gpus;
  for (const RankGpus& rank : all) {
    for (std::size_t d = 0; rank.host == host && d < rank.survey.devices.size(); ++d) {
      if (find(gpus, gpu_of(rank, d)) == gpus.size()) gpus.push_back(gpu_of(rank, d));
    }
  }
  return gpus;
}

std::vector<int> ranks_of_host(std::span<const RankGpus> all, const std::string& host) {
  std::vector<int> ranks;
  for (std::size_t r = 0; r < all.size(); ++r) {
    if (all[r].host == host) ranks.push_back(static_cast<int>(r));
  }
  return ranks;
}

// The ranks of the first GPU that more than one has.
std::vector<int> first_sharers(const GpuAssignment& assignment) {
  for (const int gpu : assignment.gpus) {
    std::vector<int> ranks;
    for (std::size_t r = 0; r < assignment.gpus.size(); ++r) {
      if (assignment.gpus[r] == gpu) ranks.push_back(static_cast<int>(r));
    }
    if (ranks.size() > 1) return ranks;
  }
  return {};
}

}  // namespace

GpuAssignment assign_gpus(std::span<const RankGpus> all) {
  GpuAssignment assignment;
  std::vector<Gpu> taken;
  for (const RankGpus& rank : all) {
    const std::size_t n = rank.survey.devices.size();
    const auto preferred = static_cast<std::size_t>(rank.node_rank);
    std::size_t device = preferred % n;
    for (std::size_t k = 0; k < n; ++k) {
      const std::size_t candidate = (preferred + k) % n;
      if (find(taken, gpu_of(rank, candidate)) < taken.size()) continue;
      device = candidate;
      break;
    }
    const std::size_t number = find(taken, gpu_of(rank, device));
    if (number < taken.size()) {
      assignment.shared = true;
    } else {
      taken.push_back(gpu_of(rank, device));
    }
    assignment.devices.push_back(static_cast<int>(device));
    assignment.gpus.push_back(static_cast<int>(number));
  }
  return assignment;
}

void refuse_sharing(std::span<const RankGpus> all, const GpuAssignment& assignment) {
  const std::vector<int> sharers = first_sharers(assignment);
  const auto first = static_cast<std::size_t>(sharers.front());
  const std::string& host = all[first].host;
  const std::vector<int> ranks = ranks_of_host(all, host);
  const std::vector<Gpu> gpus = gpus_of_host(all, host);
  if (gpus.size() >= ranks.size()) {  // there are enough, but they do not see them
    const auto device = static_cast<std::size_t>(assignment.devices[first]);
    const GpuDevice& gpu = all[first].survey.devices[device];
    refuse(ExitCode::resources,
           {.what = fmt::format("{} on {} see no other GPU than {} ({})", ranks_text(sharers), host,
                                gpu.bus_id, gpu.name),
            .expected = "a GPU for each rank",
            .remedy = "let each rank see a GPU of its own (CUDA_VISIBLE_DEVICES), or give "
                      "--allow-shared-gpu (slow), or --backend cpu"});
  }
  std::vector<std::string> names;
  for (const Gpu& gpu : gpus) names.push_back(gpu.device->bus_id);
  refuse(ExitCode::resources,
         {.what = "fewer GPUs than ranks on " + host,
          .expected = fmt::format("{} GPUs for {}", ranks.size(), ranks_text(ranks)),
          .found = fmt::format("{} ({})", gpus.size(), fmt::join(names, ", ")),
          .remedy = fmt::format("start at most {} rank{} there, or give --allow-shared-gpu (slow), "
                                "or --backend cpu",
                                gpus.size(), gpus.size() == 1 ? "" : "s")});
}

}  // namespace shardlm
