// One rank's records on their way to rank 0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "comm/call_record.h"
#include "comm/communicator.h"

namespace shardlm {

/// Who a rank is, for the tables.
struct RankIdentity {
  std::string host;
  std::string cores;    ///< "6", "0-1"
  std::string machine;  ///< ranks with equal texts have one steady clock and one counter
};

/// The boot and the time namespace of the system: machine_id() of two processes is equal if they
/// read the same clocks, also from containers and network namespaces. Empty: the system does not
/// say, and the rank counts as a machine of its own.
std::string machine_id();

/// A CallRecord whose algorithm is an index into RankRecords::algorithms.
struct LoggedCall {
  Call call{};
  StepMark step{};
  std::uint32_t algorithm = 0;
  std::int32_t root = -1;
  std::uint64_t bytes = 0;
  std::int64_t wire_tx = -1;
  std::int64_t start = 0, end = 0, blocked = -1, wait = -1;
  DType dtype = DType::u8;
};

struct RankRecords {
  RankIdentity who;
  TickAnchor first, run, last;  ///< recording began, the work after loading began, all ended
  bool tsc = false;             ///< ticks of the time-stamp counter, else nanoseconds
  bool device = false;          ///< times were mapped from a device's clock
  std::uint64_t dropped_calls = 0, dropped_steps = 0;
  std::vector<LoggedCall> calls;
  std::vector<StepRecord> steps;
  std::vector<std::string> algorithms;
};

/// How many records a log has had at some moment.
struct LogMark {
  std::size_t calls = 0, steps = 0;
  static LogMark of(const CallLog& log) { return {log.calls.added(), log.steps.added()}; }
};

/// Takes what the log holds since `since`; launches of one call (equal numbers) become one record.
RankRecords take_records(const CallLog& log, const RankIdentity& who, const LogMark& since = {});

/// Numbers of a device's calls, which it counts by itself, lie above those of the host.
inline constexpr std::uint64_t kDeviceNumbers = std::uint64_t{1} << 48;
/// Adds a device's calls, whose times are of the steady clock; first and last of `records` are set.
/// The host's all-reduces go: they are what a device's call is made of.
void add_device_records(RankRecords& records, const CallLog& device);

void write_records(const RankRecords& records, std::vector<std::byte>& message);
RankRecords read_records(std::span<const std::byte> message);

/// Collective. At rank 0: one for each rank; elsewhere empty.
std::vector<RankRecords> gather_records(Communicator& comm, const RankRecords& mine);

}  // namespace shardlm
