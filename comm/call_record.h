// What a collective cost: one record a call, the same for every transport.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/dtype.h"
#include "comm/call.h"
#include "comm/ticks.h"

namespace shardlm {

/// One call of a collective on one rank, in ticks of the log's clock.
struct CallRecord {
  Call call{};
  StepMark step{};             ///< the last that had begun when the call ended
  const char* algorithm = "";  ///< a literal: "shm-oneshot", "nccl"
  std::uint64_t bytes = 0;     ///< of this rank's message, as its caller sees it
  std::int64_t wire_tx = -1;   ///< sent by this rank, or written for its peers to read; -1: unknown
  std::int64_t start = 0;      ///< the rank entered the call
  std::int64_t end = 0;        ///< and left it
  std::int64_t blocked = -1;   ///< so much of it held up this rank's computing; -1: all
  std::int64_t wait = -1;      ///< from `start` until all had entered; -1: this rank cannot tell
  std::int32_t root = -1;      ///< of a broadcast or a gather
  DType dtype = DType::u8;     ///< of the message
};

/// A forward pass, as one rank saw it.
struct StepRecord {
  StepMark mark;
  std::int64_t start = 0;  ///< its plan is known
  std::int64_t end = 0;    ///< its answer is there, about to be sent
};

/// The last so many of something, in memory of fixed size. Off until it has a capacity.
template <class Record>
class RecordRing {
 public:
  RecordRing() = default;
  explicit RecordRing(std::size_t capacity) : records_(capacity) {}

  bool on() const { return !records_.empty(); }
  std::size_t capacity() const { return records_.size(); }
  /// Records held; never more than the capacity.
  std::size_t size() const { return n_added_ < records_.size() ? n_added_ : records_.size(); }
  /// Records since it was made or cleared.
  std::size_t added() const { return n_added_; }
  /// Records that newer ones have pushed out.
  std::size_t dropped() const { return n_added_ - size(); }
  /// The i-th oldest of those held.
  const Record& operator[](std::size_t i) const {
    const std::size_t oldest = dropped() == 0 ? 0 : next_;
    const std::size_t at = oldest + i;
    return records_[at < records_.size() ? at : at - records_.size()];
  }

  /// Without effect while off.
  void add(const Record& record) {
    if (!on()) return;
    add() = record;
  }
  /// The place of a new record, with what an old one left there. Only while on.
  Record& add() {
    Record& place = records_[next_];
    ++n_added_;
    if (++next_ == records_.size()) next_ = 0;
    __builtin_prefetch(&records_[next_], 1);  // the next one's memory has time to come
    return place;
  }
  void clear() { n_added_ = next_ = 0; }

 private:
  std::vector<Record> records_;
  std::size_t n_added_ = 0;
  std::size_t next_ = 0;  ///< where the next record goes
};

/// What a rank remembers of its collectives and passes. Its memory is written when it is made, so
/// that no call meets a page of it for the first time.
struct CallLog {
  TickClock clock = TickClock::cpu;
  RecordRing<CallRecord> calls;
  RecordRing<StepRecord> steps;
  StepMark step;  ///< the current one
  /// Calls that can tell also record when all had entered: one more reading of the clock.
  bool tells_wait = false;

  CallLog() = default;
  explicit CallLog(std::size_t n_calls, std::size_t n_steps = 0) : calls(n_calls), steps(n_steps) {}
  bool on() const { return calls.on(); }

  std::int64_t now() const { return clock == TickClock::cpu ? ticks() : steady_ns(); }

  void begin_step(const StepMark& mark) {
    step = mark;
    if (steps.on()) step_start_ = now();
  }
  void end_step() {
    if (steps.on()) steps.add({step, step_start_, now()});
  }
  /// A call whose times are learnt later, from a device: of the last step that began before its
  /// end.
  void add_by_time(CallRecord record) {
    record.step = step;
    std::int64_t began = step_start_;
    for (std::size_t i = steps.size(); i > 0 && record.end <= began; --i) {
      record.step = steps[i - 1].mark;
      began = steps[i - 1].start;
    }
    calls.add(record);
  }

 private:
  std::int64_t step_start_ = 0;
};

/// Times one call and adds it to the log where it has ended; a call that ends by an exception
/// leaves no record. Costs two readings of the clock and a record's bytes, and nothing while the
/// log is off.
class RecordedCall {
 public:
  RecordedCall(CallLog& log, const Call& call) : log_(log), call_(call) {
    if (log_.on()) start_ = ticks();
  }

  /// All ranks have entered, as far as this one can tell: the rest of the call is transfer.
  void all_entered() {
    if (log_.on()) wait_ = ticks() - start_;
  }
  /// Of a broadcast or a gather.
  void set_root(int root) { root_ = root; }

  void end(const char* algorithm, DType dtype, std::uint64_t bytes, std::uint64_t wire_tx) {
    if (!log_.on()) return;
    const std::int64_t end = ticks();
    // Field by field to where it stays: a copy from the stack costs as much as a reading.
    CallRecord& r = log_.calls.add();
    r.call = call_;
    r.step = log_.step;
    r.algorithm = algorithm;
    r.bytes = bytes;
    r.wire_tx = static_cast<std::int64_t>(wire_tx);
    r.start = start_;
    r.end = end;
    r.blocked = -1;
    r.wait = wait_;
    r.root = root_;
    r.dtype = dtype;
  }

 private:
  CallLog& log_;
  Call call_;
  std::int64_t start_ = 0, wait_ = -1;
  std::int32_t root_ = -1;
};

}  // namespace shardlm
