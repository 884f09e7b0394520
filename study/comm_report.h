// What a run's collectives cost, in tables. docs/communication.md says what the columns mean.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "study/cost_model.h"
#include "study/merged_calls.h"
#include "study/wire_quality.h"

namespace shardlm {

/// The calls of one kind of site in one phase. Times are of a step, means over the ranks.
struct SiteRow {
  Site site;  ///< layer -1: all layers
  Op op = Op::barrier;
  Phase phase = Phase::load;
  std::string algorithms;  ///< "ring", "direct + ring"
  std::uint64_t calls = 0, steps = 0;
  std::uint64_t bytes = 0;               ///< of all calls: the message, its mean over the ranks
  std::optional<std::uint64_t> wire_tx;  ///< sent by all ranks in all calls, if they all know
  double call_ms = 0, wait_ms = 0, transfer_ms = 0;
  double hidden_ms = 0;  ///< of call_ms: the rank went on computing
  double share = 0;      ///< of the phase's step
  double median_transfer_us = 0;
  std::optional<double> p50_us, p99_us;  ///< of the calls' transfers, with samples enough to say
  std::optional<double> model_us, efficiency;
};

/// Where one rank's time went, from the end of loading to the end of the run.
struct RankRow {
  RankIdentity who;
  double compute_s = 0, wait_s = 0, transfer_s = 0, other_s = 0;
  double wall_s = 0;  ///< by the rank's steady clock, not by its records
  double sum_s() const { return compute_s + wait_s + transfer_s + other_s; }
};

/// Of calls in the background, what they hold up a rank. The factors by which the ranks'
/// computation becomes the time of a step.
struct PhaseRow {
  Phase phase = Phase::load;
  std::uint64_t steps = 0, tokens = 0;
  double step_ms = 0, compute_ms = 0, wait_ms = 0, transfer_ms = 0, other_ms = 0;
  double hidden_ms = 0;     ///< time in calls that went on behind computation
  double overlap() const {  ///< the share of the time in calls that was hidden
    const double calls = wait_ms + transfer_ms + hidden_ms;
    return calls > 0 ? hidden_ms / calls : 0;
  }
  double load_balance = 1, serialisation = 1, transfer = 1;
  double parallel() const { return load_balance * serialisation * transfer; }
};

/// Messages of from <= bytes < to.
struct SizeBucket {
  std::uint64_t from = 0, to = 0, calls = 0, bytes = 0;
};

struct ReportQuestion {
  bool per_layer = false;
  std::optional<ModelConfig> model = {};  ///< to check the counts and bytes of its all-reduces
  std::optional<LinkCost> link = {};      ///< none: fitted to the run, if it has calls of two sizes
};

struct CommReport {
  std::string clock, split;
  double clock_error_us = 0;
  std::uint64_t violations = 0;
  double worst_violation_us = 0;
  std::uint64_t calls = 0, dropped_calls = 0, dropped_steps = 0, incomplete_calls = 0;
  std::string model_source;   ///< of model_us; empty: none
  std::string traffic_check;  ///< a sentence; empty: not asked
  bool traffic_as_expected = true;
  std::vector<SiteRow> sites;
  std::vector<PhaseRow> phases;
  std::vector<RankRow> ranks;
  std::vector<SizeBucket> sizes;
  std::string exactness;               ///< of the sums: "reordered"; empty: unknown
  std::optional<WireQuality> quality;  ///< of rounded sums
  double worst_sum_error = 0;          ///< |sum - wall| / wall, the worst rank's
  bool sums_close() const { return worst_sum_error <= 0.01; }
};

CommReport make_comm_report(const MergedRun& run, const ReportQuestion& question);

/// Tables for a terminal, and one JSON object with the same numbers in full.
std::string report_text(const CommReport& report);
std::string report_json(const CommReport& report);

}  // namespace shardlm
