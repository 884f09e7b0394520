#include "study/call_split.h"

#include <algorithm>
#include <vector>

#include "study/statistics.h"

namespace shardlm {
namespace {

// Above this share of the median transfer, the clock's error says more than the clock.
constexpr double kClockErrorShare = 0.2;

std::size_t last_to_enter(std::span<const RankPart> parts) {
  const auto later = [](const RankPart& a, const RankPart& b) { return a.entry < b.entry; };
  return static_cast<std::size_t>(std::max_element(parts.begin(), parts.end(), later) -
                                  parts.begin());
}

bool waits_for_all(const MergedCall& call, std::size_t rank) {
  return call.call.op == Op::all_reduce || call.call.op == Op::barrier ||
         (call.call.op == Op::gather && static_cast<int>(rank) == call.root);
}

bool waits_for_root(const MergedCall& call, std::size_t rank) {
  return call.call.op == Op::broadcast && call.root >= 0 && static_cast<int>(rank) != call.root;
}

// The shortest call among the ranks that wait alike: of the last of them, who did not wait.
std::int64_t shortest(const MergedCall& call, std::span<const RankPart> parts) {
  std::int64_t least = parts[0].call();
  bool found = false;
  for (std::size_t r = 0; r < parts.size(); ++r) {
    // The root of a broadcast hands over its message and goes: its time says nothing of the
    // others'.
    if (call.call.op == Op::broadcast && static_cast<int>(r) == call.root) continue;
    least = found ? std::min(least, parts[r].call()) : parts[r].call();
    found = true;
  }
  return least;
}

std::int64_t wait_of(SplitMethod method, const MergedCall& call, std::span<const RankPart> parts,
                     std::size_t rank) {
  const RankPart& part = parts[rank];
  if (!waits_for_all(call, rank) && !waits_for_root(call, rank)) return 0;
  std::int64_t wait = 0;
  switch (method) {
    case SplitMethod::global_clock:
      wait = ready_at(call, parts, rank) - part.entry;
      break;
    case SplitMethod::ranks_own:
      wait = part.own_wait >= 0 ? part.own_wait : part.call() - shortest(call, parts);
      break;
    case SplitMethod::min_over_ranks:
      wait = part.call() - shortest(call, parts);
      break;
  }
  return std::clamp<std::int64_t>(wait, 0, part.call());
}

void split_call(MergedCall& call, std::span<RankPart> parts, SplitMethod method) {
  call.last_to_enter = last_to_enter(parts);
  const auto earlier = [](const RankPart& a, const RankPart& b) { return a.entry < b.entry; };
  call.skew = parts[call.last_to_enter].entry -
              std::min_element(parts.begin(), parts.end(), earlier)->entry;
  call.transfer = 0;
  for (std::size_t r = 0; r < parts.size(); ++r) {
    parts[r].wait = wait_of(method, call, parts, r);
    call.transfer = std::max(call.transfer, parts[r].transfer());
  }
}

void split_all(MergedRun& run, SplitMethod method) {
  run.split = method;
  for (std::size_t c = 0; c < run.calls.size(); ++c) {
    split_call(run.calls[c], std::span(run.parts).subspan(c * run.ranks.size(), run.ranks.size()),
               method);
  }
}

double median_transfer(const MergedRun& run) {
  std::vector<double> ns;
  for (const MergedCall& call : run.calls) {
    if (call.call.op == Op::all_reduce) ns.push_back(static_cast<double>(call.transfer));
  }
  return median(ns);
}

bool all_reduces_tell_wait(const MergedRun& run) {
  for (std::size_t c = 0; c < run.calls.size(); ++c) {
    if (run.calls[c].call.op != Op::all_reduce) continue;
    for (const RankPart& part : run.parts_of(c))
      if (part.own_wait < 0) return false;
  }
  return true;
}

// Nobody goes on before whom he waits for has come.
void count_violations(MergedRun& run) {
  for (std::size_t c = 0; c < run.calls.size(); ++c) {
    const auto parts = run.parts_of(c);
    for (std::size_t r = 0; r < parts.size(); ++r) {
      const std::int64_t by = ready_at(run.calls[c], parts, r) - parts[r].exit;
      if (by <= run.clock_error_ns) continue;
      ++run.violations;
      run.worst_violation_ns = std::max(run.worst_violation_ns, by);
    }
  }
}

}  // namespace

std::optional<std::size_t> released_by(const MergedCall& call, std::span<const RankPart> parts,
                                       std::size_t rank) {
  std::size_t by = rank;
  if (waits_for_all(call, rank)) by = last_to_enter(parts);
  if (waits_for_root(call, rank)) by = static_cast<std::size_t>(call.root);
  if (parts[by].entry <= parts[rank].entry) return std::nullopt;
  return by;
}

std::int64_t ready_at(const MergedCall& call, std::span<const RankPart> parts, std::size_t rank) {
  return parts[released_by(call, parts, rank).value_or(rank)].entry;
}

void split_calls(MergedRun& run) {
  split_all(run, SplitMethod::global_clock);
  count_violations(run);
  const double error_ns = static_cast<double>(run.clock_error_ns);
  if (error_ns <= kClockErrorShare * median_transfer(run) || run.clock_error_ns == 0) return;
  split_all(run, all_reduces_tell_wait(run) ? SplitMethod::ranks_own : SplitMethod::min_over_ranks);
}

}  // namespace shardlm
