#include "study/comm_report.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "study/rank_segments.h"
#include "study/site_rows.h"

namespace shardlm {
namespace {

constexpr double kS = 1e-9, kMs = 1e-6, kUs = 1e-3;

struct PhaseSums {
  double compute_ns = 0, wait_ns = 0, transfer_ns = 0, other_ns = 0;  // of all ranks
  std::vector<double> own_ns;                                         // [rank] outside of calls
  double ideal_ns = 0;                                                // if calls cost nothing
  double hidden_ns = 0;                                               // of all ranks
};

// Adds a rank's segments to its row and to the sums of the phases; own[call] is what the rank did
// between the call before and this one.
void add_rank(const MergedRun& run, std::size_t rank, RankRow& row,
              std::map<Phase, PhaseSums>& phases, std::vector<double>& own) {
  double since_call = 0;
  for (const RankSegment& s : rank_segments(run, rank)) {
    PhaseSums& phase = phases[s.phase];
    const auto ns = static_cast<double>(s.ns());
    if (s.kind == SegmentKind::call) {
      // A segment may be shorter than the call where clocks disagree.
      const auto wait =
          std::min(ns, static_cast<double>(run.parts_of(s.call)[rank].exposed_wait()));
      row.wait_s += wait * kS;
      row.transfer_s += (ns - wait) * kS;
      phase.wait_ns += wait;
      phase.transfer_ns += ns - wait;
      own[s.call] = since_call;
      since_call = 0;
      continue;
    }
    const bool compute = s.kind == SegmentKind::compute;
    (compute ? row.compute_s : row.other_s) += ns * kS;
    (compute ? phase.compute_ns : phase.other_ns) += ns;
    since_call += ns;
  }
}

PhaseRow phase_row(Phase phase, const PhaseSums& sums, std::size_t n_ranks) {
  PhaseRow row;
  row.phase = phase;
  const double ranks = static_cast<double>(n_ranks);
  double most = 0, total = 0;
  for (const double ns : sums.own_ns) most = std::max(most, ns), total += ns;
  const double elapsed =
      (sums.compute_ns + sums.wait_ns + sums.transfer_ns + sums.other_ns) / ranks;
  if (most > 0) row.load_balance = total / ranks / most;
  if (sums.ideal_ns > 0) row.serialisation = most / sums.ideal_ns;
  if (elapsed > 0 && sums.ideal_ns > 0) row.transfer = sums.ideal_ns / elapsed;
  row.step_ms = elapsed * kMs;
  row.compute_ms = sums.compute_ns / ranks * kMs;
  row.wait_ms = sums.wait_ns / ranks * kMs;
  row.transfer_ms = sums.transfer_ns / ranks * kMs;
  row.other_ms = sums.other_ns / ranks * kMs;
  row.hidden_ms = sums.hidden_ns / ranks * kMs;
  return row;
}

// The passes of the run, as rank 0 recorded them.
void count_steps(const MergedRun& run, std::vector<PhaseRow>& rows) {
  for (PhaseRow& row : rows) {
    for (const RankStep& step : run.ranks[0].steps) {
      if (step.mark.phase != row.phase) continue;
      ++row.steps;
      row.tokens += static_cast<std::uint64_t>(step.mark.rows);
    }
    const double n = static_cast<double>(std::max<std::uint64_t>(row.steps, 1));
    for (double* ms : {&row.step_ms, &row.compute_ms, &row.wait_ms, &row.transfer_ms, &row.other_ms,
                       &row.hidden_ms}) {
      *ms /= n;
    }
  }
}

void add_times(const MergedRun& run, CommReport& report) {
  const std::size_t n_ranks = run.ranks.size();
  std::map<Phase, PhaseSums> phases;
  std::vector<std::vector<double>> own(n_ranks, std::vector<double>(run.calls.size(), 0));
  for (std::size_t r = 0; r < n_ranks; ++r) {
    RankRow& row = report.ranks.emplace_back();
    row.who = run.ranks[r].who;
    row.wall_s = static_cast<double>(run.ranks[r].wall_ns) * kS;
    add_rank(run, r, row, phases, own[r]);
    // Of a rank that lost records, only the rest can be accounted for.
    if (run.ranks[r].dropped_calls + run.ranks[r].incomplete_calls > 0) row.wall_s = row.sum_s();
    if (row.wall_s > 0) {
      report.worst_sum_error =
          std::max(report.worst_sum_error, std::abs(row.sum_s() - row.wall_s) / row.wall_s);
    }
  }
  for (auto& [phase, sums] : phases) sums.own_ns.assign(n_ranks, 0);
  for (std::size_t c = 0; c < run.calls.size(); ++c) {
    PhaseSums& sums = phases[run.calls[c].step.phase];
    sums.own_ns.resize(n_ranks, 0);
    double most = 0;
    for (std::size_t r = 0; r < n_ranks; ++r) {
      sums.own_ns[r] += own[r][c];
      most = std::max(most, own[r][c]);
      sums.hidden_ns += static_cast<double>(run.parts_of(c)[r].hidden());
    }
    sums.ideal_ns += most;
  }
  for (const auto& [phase, sums] : phases) {
    if (phase != Phase::load) report.phases.push_back(phase_row(phase, sums, n_ranks));
  }
  count_steps(run, report.phases);
}

}  // namespace

CommReport make_comm_report(const MergedRun& run, const ReportQuestion& question) {
  CommReport report;
  report.clock = run.clock;
  report.split = split_text(run.split);
  report.clock_error_us = static_cast<double>(run.clock_error_ns) * kUs;
  report.violations = run.violations;
  report.worst_violation_us = static_cast<double>(run.worst_violation_ns) * kUs;
  report.calls = run.calls.size();
  for (const MergedRank& r : run.ranks) {
    report.dropped_calls += r.dropped_calls;
    report.dropped_steps += r.dropped_steps;
    report.incomplete_calls += r.incomplete_calls;
  }
  const std::optional<LinkCost> link = question.link ? question.link : fit_link(run);
  if (link) report.model_source = link->source;
  report.sites = site_rows(run, question.per_layer, link ? &*link : nullptr);
  add_times(run, report);
  for (SiteRow& row : report.sites) {
    for (const PhaseRow& phase : report.phases) {
      if (phase.phase == row.phase && phase.step_ms > 0) row.share = row.call_ms / phase.step_ms;
    }
  }
  report.sizes = size_histogram(run);
  if (question.model)
    report.traffic_check = check_traffic(run, *question.model, report.traffic_as_expected);
  return report;
}

}  // namespace shardlm
