#include "launcher/gpu_messages.h"

#include "launcher/wire_text.h"

namespace shardlm {
namespace {

void put(ByteWriter& to, const GpuDevice& d) {
  to.put(d.index);
  to.put_all(d.name);
  to.put_all(d.bus_id);
  to.put_all(d.uuid);
  to.put(d.compute_major);
  to.put(d.compute_minor);
  to.put(d.n_sm);
  to.put(d.free_bytes);
  to.put(d.total_bytes);
  to.put(d.memory_gb_s);
  to.put_all(d.peers);
}

GpuDevice get_device(ByteReader& from) {
  GpuDevice d;
  d.index = from.get<int>();
  d.name = get_text(from);
  d.bus_id = get_text(from);
  d.uuid = get_text(from);
  d.compute_major = from.get<int>();
  d.compute_minor = from.get<int>();
  d.n_sm = from.get<int>();
  d.free_bytes = from.get<std::uint64_t>();
  d.total_bytes = from.get<std::uint64_t>();
  d.memory_gb_s = from.get<double>();
  from.get_all(d.peers);
  return d;
}

}  // namespace

void write(const RankGpus& rank, std::vector<std::byte>& bytes) {
  ByteWriter to(bytes);
  to.put_all(rank.host);
  to.put(rank.node_rank);
  to.put(rank.survey.built_in);
  to.put_all(rank.survey.none_because);
  to.put_all(rank.survey.versions);
  to.put(static_cast<std::uint64_t>(rank.survey.devices.size()));
  for (const GpuDevice& device : rank.survey.devices) put(to, device);
}

RankGpus read_rank_gpus(std::span<const std::byte> bytes) {
  ByteReader from(bytes);
  RankGpus rank;
  rank.host = get_text(from);
  rank.node_rank = from.get<int>();
  rank.survey.built_in = from.get<bool>();
  rank.survey.none_because = get_text(from);
  rank.survey.versions = get_text(from);
  const auto n = from.get<std::uint64_t>();
  for (std::uint64_t i = 0; i < n; ++i) rank.survey.devices.push_back(get_device(from));
  return rank;
}

void write(const BackendDecision& decision, std::vector<std::byte>& bytes) {
  ByteWriter to(bytes);
  to.put(decision.kind);
  to.put_all(decision.because);
  to.put_all(decision.summary);
  to.put_all(decision.devices);
  to.put_all(decision.gpus);
  to.put(decision.one_node);
  to.put(decision.peer_access);
  to.put(decision.shared_gpu);
}

BackendDecision read_decision(std::span<const std::byte> bytes) {
  ByteReader from(bytes);
  BackendDecision decision;
  decision.kind = from.get<BackendKind>();
  decision.because = get_text(from);
  decision.summary = get_text(from);
  from.get_all(decision.devices);
  from.get_all(decision.gpus);
  decision.one_node = from.get<bool>();
  decision.peer_access = from.get<bool>();
  decision.shared_gpu = from.get<bool>();
  return decision;
}

}  // namespace shardlm
