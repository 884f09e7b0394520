// Made-up records, whose answers can be computed by hand.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "study/merged_calls.h"

namespace shardlm {

/// One rank's part of a call: entry, exit and, if it can tell, how long it waited.
struct When {
  std::int64_t start, end, wait = -1;
};

/// Ranks of one machine whose clock counts nanoseconds.
class MadeUp {
 public:
  explicit MadeUp(std::size_t ranks, std::int64_t run_ns = 0, std::int64_t last_ns = 1'000'000) {
    for (std::size_t r = 0; r < ranks; ++r) {
      RankRecords& records = ranks_.emplace_back();
      records.who = {
          .host = "node" + std::to_string(r), .cores = std::to_string(2 * r), .machine = "m"};
      records.run.steady_ns = run_ns;
      records.last.steady_ns = last_ns;
      records.algorithms = {"direct", "shm-oneshot"};
    }
    offsets_.resize(ranks);
  }

  /// The next call of all ranks.
  MadeUp& call(Op op, Site site, std::uint64_t bytes, const std::vector<When>& when) {
    ++number_;
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      ranks_[r].calls.push_back({.call = {op, site, number_},
                                 .step = step_,
                                 .algorithm = algorithm,
                                 .root = op == Op::broadcast || op == Op::gather ? 0 : -1,
                                 .bytes = bytes,
                                 .wire_tx = wire_tx,
                                 .start = when[r].start,
                                 .end = when[r].end,
                                 .wait = when[r].wait,
                                 .dtype = op == Op::all_reduce ? DType::f32 : DType::u8});
    }
    return *this;
  }
  MadeUp& sum(Site site, std::uint64_t bytes, const std::vector<When>& when) {
    return call(Op::all_reduce, site, bytes, when);
  }
  /// What follows belongs to this pass, which lasts so long on each rank.
  MadeUp& step(const StepMark& mark, const std::vector<When>& when) {
    step_ = mark;
    for (std::size_t r = 0; r < ranks_.size(); ++r)
      ranks_[r].steps.push_back({mark, when[r].start, when[r].end});
    return *this;
  }

  MergedRun merge() const { return merge_records(ranks_, offsets_, offsets_); }
  std::vector<RankRecords>& ranks() { return ranks_; }

  std::uint32_t algorithm = 0;
  std::int64_t wire_tx = -1;

 private:
  std::vector<RankRecords> ranks_;
  std::vector<ClockOffset> offsets_;
  std::uint64_t number_ = 0;
  StepMark step_;
};

}  // namespace shardlm
