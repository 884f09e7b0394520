#include "study/test_account.h"

#include <algorithm>
#include <cmath>

#include "study/cost_model.h"

namespace shardlm {
namespace {

constexpr std::size_t kMostTransfers = 1 << 20;

RankRow& operator+=(RankRow& to, const RankRow& more) {
  to.compute_s += more.compute_s;
  to.wait_s += more.wait_s;
  to.transfer_s += more.transfer_s;
  to.other_s += more.other_s;
  to.wall_s += more.wall_s;
  return to;
}

}  // namespace

void TestAccount::add(const MergedRun& window, std::uint64_t passes) {
  const CommReport report = make_comm_report(window, {});
  clock_ = report.clock;
  split_ = report.split;
  clock_error_us_ = std::max(clock_error_us_, report.clock_error_us);
  lost_ += report.dropped_calls + report.dropped_steps + report.incomplete_calls;
  violations_ += report.violations;
  steps_ += window.ranks[0].steps.size();
  expected_steps_ += passes;
  add_ranks(report);
  add_phases(report);
  add_all_reduces(window);
}

void TestAccount::add_ranks(const CommReport& report) {
  ranks_.resize(report.ranks.size());
  for (std::size_t r = 0; r < ranks_.size(); ++r) {
    ranks_[r].who = report.ranks[r].who;
    ranks_[r] += report.ranks[r];
  }
}

// The factors of a phase are quotients of these sums.
void TestAccount::add_phases(const CommReport& report) {
  for (const PhaseRow& phase : report.phases) {
    const double elapsed = phase.step_ms * static_cast<double>(phase.steps);
    const double ideal = elapsed * phase.transfer, most = ideal * phase.serialisation;
    elapsed_ms_ += elapsed;
    ideal_ms_ += ideal;
    most_ms_ += most;
    mean_ms_ += most * phase.load_balance;
  }
}

void TestAccount::add_all_reduces(const MergedRun& window) {
  std::uint64_t halves = 1;
  for (std::size_t c = 0; c < window.calls.size(); ++c) {
    const MergedCall& call = window.calls[c];
    if (call.call.op != Op::all_reduce) continue;
    const auto parts = window.parts_of(c);
    ++all_reduces_.calls;
    all_reduces_.bytes += parts[0].bytes;
    for (const RankPart& part : parts) {
      if (part.wire_tx < 0) all_reduces_.sent.reset();
      if (all_reduces_.sent) *all_reduces_.sent += static_cast<std::uint64_t>(part.wire_tx);
    }
    all_reduces_.algorithms.emplace(call.algorithm);
    if (all_reduces_.transfers_us.size() < kMostTransfers)
      all_reduces_.transfers_us.push_back(static_cast<double>(call.transfer) * 1e-3);
    if (parts[0].blocked >= 0) halves = 2;  // sums of half of the rows, behind arithmetic
  }
  if (sums_ == Sums::none) return;
  for (const RankStep& step : window.ranks[0].steps) {
    const ExpectedTraffic traffic = expected_traffic(model_, step.mark.rows);
    const bool cut = step.mark.phase == Phase::prefill && step.mark.rows > 1;
    all_reduces_.expected_calls +=
        static_cast<std::uint64_t>(traffic.all_reduces) * (cut ? halves : 1);
    all_reduces_.expected_bytes += traffic.bytes;
    // The embedding's sum, the first one, stays one of floats.
    if (sums_ == Sums::exact) all_reduces_.expected_bytes += traffic.bytes - traffic.bytes_each;
  }
}

RankRow TestAccount::mean() const {
  RankRow sum;
  for (const RankRow& rank : ranks_) sum += rank;
  const double n = static_cast<double>(std::max<std::size_t>(ranks_.size(), 1));
  for (double* s : {&sum.compute_s, &sum.wait_s, &sum.transfer_s, &sum.other_s, &sum.wall_s})
    *s /= n;
  return sum;
}

double TestAccount::closing_error() const {
  double worst = 0;
  for (const RankRow& rank : ranks_) {
    if (rank.wall_s > 0)
      worst = std::max(worst, std::abs(rank.sum_s() - rank.wall_s) / rank.wall_s);
  }
  return worst;
}

bool TestAccount::closes() const {
  return !empty() && lost_ == 0 && steps_ == expected_steps_ && closing_error() <= 0.01;
}

double TestAccount::load_balance() const { return most_ms_ > 0 ? mean_ms_ / most_ms_ : 1; }
double TestAccount::serialisation() const { return ideal_ms_ > 0 ? most_ms_ / ideal_ms_ : 1; }
double TestAccount::transfer_efficiency() const {
  return elapsed_ms_ > 0 && ideal_ms_ > 0 ? ideal_ms_ / elapsed_ms_ : 1;
}

}  // namespace shardlm
