#include "launcher/doctor_messages.h"

#include "launcher/wire_text.h"

namespace shardlm {
namespace {

template <typename T>
void put_optional(ByteWriter& to, const std::optional<T>& value) {
  to.put(value.has_value());
  to.put(value.value_or(T{}));
}

template <typename T>
std::optional<T> get_optional(ByteReader& from) {
  const bool has = from.get<bool>();
  const T value = from.get<T>();
  return has ? std::optional(value) : std::nullopt;
}

}  // namespace

void write(const RankFacts& facts, std::vector<std::byte>& bytes) {
  ByteWriter to(bytes);
  const HostFacts& m = facts.machine;
  to.put(m.pid);
  to.put_all(m.cores);
  to.put_all(m.numa_nodes);
  to.put(m.memory_bytes);
  to.put(m.memory_available_bytes);
  put_optional(to, m.memory_limit_bytes);
  to.put(m.page_bytes);
  to.put_all(m.huge_pages);
  put_optional(to, m.shm_free_bytes);
  put_optional(to, m.memlock_bytes);
  to.put(facts.threads);
  to.put_all(facts.mpi);
  put_optional(to, facts.device_memory);
  to.put_all(facts.device_problem);
}

RankFacts read_rank_facts(std::span<const std::byte> bytes) {
  ByteReader from(bytes);
  RankFacts facts;
  HostFacts& m = facts.machine;
  m.pid = from.get<int>();
  from.get_all(m.cores);
  from.get_all(m.numa_nodes);
  m.memory_bytes = from.get<std::uint64_t>();
  m.memory_available_bytes = from.get<std::uint64_t>();
  m.memory_limit_bytes = get_optional<std::uint64_t>(from);
  m.page_bytes = from.get<std::uint64_t>();
  m.huge_pages = get_text(from);
  m.shm_free_bytes = get_optional<std::uint64_t>(from);
  m.memlock_bytes = get_optional<std::uint64_t>(from);
  facts.threads = from.get<int>();
  facts.mpi = get_text(from);
  facts.device_memory = get_optional<DeviceMemory>(from);
  facts.device_problem = get_text(from);
  return facts;
}

}  // namespace shardlm
