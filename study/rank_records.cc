#include "study/rank_records.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <string_view>

#include "engine/wire.h"

namespace shardlm {
namespace {

std::uint32_t index_of(std::vector<std::string>& names, std::string_view name) {
  const auto at = std::find(names.begin(), names.end(), name);
  if (at != names.end()) return static_cast<std::uint32_t>(at - names.begin());
  names.emplace_back(name);
  return static_cast<std::uint32_t>(names.size() - 1);
}

// A further launch of the call.
void join(LoggedCall& call, const CallRecord& more) {
  call.end = more.end;
  call.bytes += more.bytes;
  if (call.wire_tx >= 0) call.wire_tx = more.wire_tx < 0 ? -1 : call.wire_tx + more.wire_tx;
  if (call.wait >= 0) call.wait = more.wait < 0 ? -1 : call.wait + more.wait;
}

std::string get_text(ByteReader& from) {
  std::vector<char> text;
  from.get_all(text);
  return {text.begin(), text.end()};
}

}  // namespace

std::string machine_id() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string id;
  if (!std::getline(file, id)) return "";
  std::error_code error;  // kernels without time namespaces have one time
  return id + " " + std::filesystem::read_symlink("/proc/self/ns/time", error).string();
}

RankRecords take_records(const CallLog& log, const RankIdentity& who, const LogMark& since) {
  // Records before the mark are neither taken nor missed.
  const std::size_t old_calls = log.calls.dropped(), old_steps = log.steps.dropped();
  RankRecords records{.who = who,
                      .first = {},
                      .run = {},
                      .last = {},
                      .tsc = log.clock == TickClock::cpu && ticks_are_tsc(),
                      .device = log.clock == TickClock::steady,
                      .dropped_calls = old_calls - std::min(old_calls, since.calls),
                      .dropped_steps = old_steps - std::min(old_steps, since.steps),
                      .calls = {},
                      .steps = {},
                      .algorithms = {}};
  const std::size_t first_call = since.calls - std::min(old_calls, since.calls);
  const std::size_t first_step = since.steps - std::min(old_steps, since.steps);
  records.calls.reserve(log.calls.size() - first_call);
  for (std::size_t i = first_call; i < log.calls.size(); ++i) {
    const CallRecord& r = log.calls[i];
    if (!records.calls.empty() && records.calls.back().call.number == r.call.number) {
      join(records.calls.back(), r);
      continue;
    }
    records.calls.push_back({.call = r.call,
                             .step = r.step,
                             .algorithm = index_of(records.algorithms, r.algorithm),
                             .root = r.root,
                             .bytes = r.bytes,
                             .wire_tx = r.wire_tx,
                             .start = r.start,
                             .end = r.end,
                             .blocked = r.blocked,
                             .wait = r.wait,
                             .dtype = r.dtype});
  }
  for (std::size_t i = first_step; i < log.steps.size(); ++i) records.steps.push_back(log.steps[i]);
  return records;
}

void add_device_records(RankRecords& records, const CallLog& device) {
  check(device.clock == TickClock::steady, "a device's times are of the steady clock");
  std::erase_if(records.calls, [](const LoggedCall& c) { return c.call.op == Op::all_reduce; });
  RankRecords more = take_records(device, records.who);
  const double per_ns =
      records.tsc ? 1 / TickScale(records.first, records.last).ns_per_tick() : 1.0;
  const auto to_ticks = [&](std::int64_t ns) -> std::int64_t {
    if (!records.tsc) return ns;
    return records.first.ticks +
           std::llround(static_cast<double>(ns - records.first.steady_ns) * per_ns);
  };
  for (LoggedCall& c : more.calls) {
    c.call.number += kDeviceNumbers;
    c.algorithm = index_of(records.algorithms, more.algorithms[c.algorithm]);
    c.start = to_ticks(c.start);
    c.end = to_ticks(c.end);
    if (c.wait >= 0) c.wait = std::llround(static_cast<double>(c.wait) * per_ns);
    records.calls.push_back(c);
  }
  records.device = true;
  records.dropped_calls += more.dropped_calls;
}

void write_records(const RankRecords& records, std::vector<std::byte>& message) {
  ByteWriter to(message);
  to.put_all(records.who.host);
  to.put_all(records.who.cores);
  to.put_all(records.who.machine);
  to.put(records.first);
  to.put(records.run);
  to.put(records.last);
  to.put(records.tsc);
  to.put(records.device);
  to.put(records.dropped_calls);
  to.put(records.dropped_steps);
  to.put_all(records.calls);
  to.put_all(records.steps);
  to.put<std::uint64_t>(records.algorithms.size());
  for (const std::string& name : records.algorithms) to.put_all(name);
}

RankRecords read_records(std::span<const std::byte> message) {
  ByteReader from(message);
  RankRecords records;
  records.who.host = get_text(from);
  records.who.cores = get_text(from);
  records.who.machine = get_text(from);
  records.first = from.get<TickAnchor>();
  records.run = from.get<TickAnchor>();
  records.last = from.get<TickAnchor>();
  records.tsc = from.get<bool>();
  records.device = from.get<bool>();
  records.dropped_calls = from.get<std::uint64_t>();
  records.dropped_steps = from.get<std::uint64_t>();
  from.get_all(records.calls);
  from.get_all(records.steps);
  const auto n = from.get<std::uint64_t>();
  for (std::uint64_t i = 0; i < n; ++i) records.algorithms.push_back(get_text(from));
  check(from.empty(), "records of a rank: bytes left over");
  return records;
}

std::vector<RankRecords> gather_records(Communicator& comm, const RankRecords& mine) {
  std::vector<std::byte> message;
  write_records(mine, message);
  std::vector<std::vector<std::byte>> all;
  comm.gather({SiteKind::dump}, message, all, 0);
  std::vector<RankRecords> ranks;
  if (comm.rank() != 0) return ranks;
  for (const std::vector<std::byte>& bytes : all) ranks.push_back(read_records(bytes));
  return ranks;
}

}  // namespace shardlm
