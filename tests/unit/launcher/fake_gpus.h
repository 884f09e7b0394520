// Ranks with invented GPUs, for the tests of what is decided and found about them.
#pragma once

#include <fmt/format.h>

#include <string>
#include <vector>

#include "launcher/gpus.h"

namespace shardlm {

/// The machine's GPU number `number` as a process sees it that calls it `index` and can map the
/// memory of `peers`.
inline GpuDevice fake_gpu(int number, int index, std::vector<int> peers = {},
                          const std::string& machine = "a") {
  GpuDevice device;
  device.index = index;
  device.name = "NVIDIA H200";
  device.bus_id = fmt::format("0000:{:02x}:00.0", 0x10 + number);
  device.uuid = fmt::format("{}-{:02}", machine, number);
  device.compute_major = 9;
  device.n_sm = 132;
  device.total_bytes = std::uint64_t{1} << 37;
  device.peers = std::move(peers);
  return device;
}

/// A rank that sees the `numbers` GPUs of its machine, all peers of each other.
inline RankGpus fake_rank(const std::string& host, int node_rank, const std::vector<int>& numbers) {
  RankGpus rank{.host = host, .node_rank = node_rank, .survey = {}};
  rank.survey.built_in = true;
  rank.survey.versions = "driver 13.0, runtime 13.0, NCCL 2.28.9";
  if (numbers.empty()) rank.survey.none_because = "no CUDA device is present";
  for (int i = 0; i < std::ssize(numbers); ++i) {
    std::vector<int> peers;
    for (int j = 0; j < std::ssize(numbers); ++j) {
      if (j != i) peers.push_back(j);
    }
    rank.survey.devices.push_back(
        fake_gpu(numbers[static_cast<std::size_t>(i)], i, std::move(peers), host));
  }
  return rank;
}

/// `ranks` ranks on one host with `gpus` GPUs, each of which sees all.
inline std::vector<RankGpus> fake_host(const std::string& host, int ranks, int gpus) {
  std::vector<int> numbers;
  for (int g = 0; g < gpus; ++g) numbers.push_back(g);
  std::vector<RankGpus> all;
  for (int r = 0; r < ranks; ++r) all.push_back(fake_rank(host, r, numbers));
  return all;
}

inline std::vector<RankGpus> joined(std::vector<RankGpus> a, const std::vector<RankGpus>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

}  // namespace shardlm
