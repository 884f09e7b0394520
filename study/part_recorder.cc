#include "study/part_recorder.h"

#include <algorithm>
#include <utility>

#include "comm/call_record.h"

namespace shardlm {
namespace {

// Of a device, whose passes are forgotten when its log is made: so it is made once.
constexpr std::size_t kDeviceCalls = 1 << 16;

}  // namespace

PartRecorder::PartRecorder(Communicator& comm, RankIdentity who, std::size_t calls,
                           std::size_t steps)
    : comm_(comm), log_(comm.pass_log()), who_(std::move(who)) {
  if (!records()) return;
  first_offsets_ = measure_clock_offsets(comm_, who_.machine);
  if (log_->calls.capacity() < calls) log_->calls = RecordRing<CallRecord>(calls);
  if (log_->steps.capacity() < steps) log_->steps = RecordRing<StepRecord>(steps);
  if (comm_.size() > 1) comm_.record_device_calls(kDeviceCalls);
  first_ = TickAnchor::now();
}

void PartRecorder::begin() {
  comm_.barrier({SiteKind::dump});
  if (!records()) return;
  mark_ = LogMark::of(*log_);
  begin_ = TickAnchor::now();
}

RankRecords PartRecorder::take() {
  RankRecords mine = take_records(*log_, who_, mark_);
  mine.first = first_;
  mine.run = begin_;
  mine.last = TickAnchor::now();
  const CallLog* device = comm_.device_log();
  if (device == nullptr) return mine;
  const std::uint64_t dropped = mine.dropped_calls;
  add_device_records(mine, *device);
  // The device's log holds the parts before, too: what it lost of those is not missed.
  const bool whole = device->calls.size() > 0 && device->calls[0].start < begin_.steady_ns;
  if (whole) mine.dropped_calls = dropped;
  return mine;
}

std::optional<MergedRun> PartRecorder::end() {
  if (!records()) return std::nullopt;
  const RankRecords mine = take();
  const std::vector<ClockOffset> last = measure_clock_offsets(comm_, who_.machine);
  const std::vector<RankRecords> ranks = gather_records(comm_, mine);
  if (comm_.rank() != 0) return std::nullopt;
  return merge_records(ranks, first_offsets_, last);
}

}  // namespace shardlm
