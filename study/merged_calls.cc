#include "study/merged_calls.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "base/error.h"
#include "study/call_split.h"

namespace shardlm {
namespace {

// A device's clock is mapped onto the host's by reading both one after the other.
constexpr std::int64_t kDeviceClockError_ns = 10'000;

// One rank's times to rank 0's clock.
struct RankClock {
  TickScale scale;
  ClockDrift drift;
  std::int64_t ns(std::int64_t ticks) const { return drift.to_rank_0(scale.ns(ticks)); }
};

// Ranks of one machine have one counter, and so must have one scale: two scales, each from its own
// anchors, would differ by what reading an anchor is good for.
std::vector<RankClock> clocks_of(std::span<const RankRecords> ranks,
                                 std::span<const ClockOffset> first,
                                 std::span<const ClockOffset> last) {
  check(first.size() == ranks.size() && last.size() == ranks.size(), "an offset for each rank");
  std::map<std::string, TickScale> scales;
  std::vector<RankClock> clocks;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    RankClock clock{.scale = {}, .drift = {first[r], last[r]}};
    const std::string& machine = ranks[r].who.machine;
    if (ranks[r].tsc) {
      const TickScale own(ranks[r].first, ranks[r].last);
      clock.scale = machine.empty() ? own : scales.try_emplace(machine, own).first->second;
    }
    clocks.push_back(clock);
  }
  return clocks;
}

void describe_clock(MergedRun& run, std::span<const RankRecords> ranks,
                    const std::vector<RankClock>& clocks) {
  std::set<std::string> machines;
  bool tsc = true, device = false;
  std::size_t unnamed = 0;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    if (ranks[r].who.machine.empty()) ++unnamed;
    machines.insert(ranks[r].who.machine);
    tsc = tsc && ranks[r].tsc;
    device = device || ranks[r].device;
    run.clock_error_ns = std::max(run.clock_error_ns, clocks[r].drift.error_ns());
  }
  const std::size_t n = machines.size() + (unnamed > 1 ? unnamed - 1 : 0);
  run.clock = fmt::format(
      "{}, {}", n == 1 ? "one machine" : fmt::format("{} machines aligned by exchanges", n),
      device ? "GPU clock mapped onto the steady clock"
             : (tsc ? "time-stamp counter" : "steady clock"));
  // Two ranks, each aligned with rank 0.
  if (ranks.size() > 2) run.clock_error_ns *= 2;
  if (device) run.clock_error_ns += kDeviceClockError_ns;
}

std::string text_of(const LoggedCall& c) {
  return fmt::format("{} of {} bytes", call_text(c.call), c.bytes);
}

void check_in_step(const LoggedCall& a, const LoggedCall& b, std::size_t rank) {
  const bool same = a.call.op == b.call.op && a.call.site.kind == b.call.site.kind &&
                    a.call.site.layer == b.call.site.layer &&
                    (a.call.op != Op::all_reduce || a.bytes == b.bytes);
  if (same) return;
  fail_out_of_step(a.call, static_cast<int>(rank), text_of(a), text_of(b));
}

bool in_a_pass(SiteKind kind) {
  return kind == SiteKind::embed || kind == SiteKind::attn_out || kind == SiteKind::mlp_out ||
         kind == SiteKind::lm_head;
}

// A plan's broadcast comes before the pass begins that it is for: it belongs to the step of what
// follows it. (After a plan that only asks again, that is the step that there is; the last plan,
// which says stop, belongs to none.)
void give_plans_to_their_steps(std::vector<MergedCall>& calls) {
  for (std::size_t i = calls.size(); i-- > 0;) {
    const Call& call = calls[i].call;
    if (call.site.kind != SiteKind::step || call.op != Op::broadcast) continue;
    const bool leads = i + 1 < calls.size() && in_a_pass(calls[i + 1].call.site.kind);
    calls[i].step = leads ? calls[i + 1].step : StepMark{};
  }
}

void add_parts(MergedRun& run, std::span<const RankRecords> ranks,
               const std::vector<RankClock>& clocks, const std::vector<std::size_t>& at) {
  const LoggedCall& first = ranks[0].calls[at[0]];
  run.calls.push_back({.call = first.call,
                       .step = first.step,
                       .root = first.root,
                       .dtype = first.dtype,
                       .algorithm = {},
                       .skew = 0,
                       .transfer = 0,
                       .last_to_enter = 0});
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    const LoggedCall& c = ranks[r].calls[at[r]];
    check_in_step(first, c, r);
    const std::int64_t entry = clocks[r].ns(c.start), exit = clocks[r].ns(c.end);
    const auto length = [&](std::int64_t ticks) {
      return ticks < 0 ? -1 : clocks[r].ns(c.start + ticks) - entry;
    };
    run.parts.push_back({.entry = entry,
                         .exit = exit,
                         .blocked = length(c.blocked),
                         .own_wait = length(c.wait),
                         .wait = 0,
                         .bytes = c.bytes,
                         .wire_tx = c.wire_tx});
  }
}

// All ranks' records are ordered by number; a call counts if every rank has it.
void match_calls(MergedRun& run, std::span<const RankRecords> ranks,
                 const std::vector<RankClock>& clocks) {
  std::vector<std::size_t> at(ranks.size(), 0), used(ranks.size(), 0);
  std::vector<const std::string*> names;
  const auto done = [&] {
    for (std::size_t r = 0; r < ranks.size(); ++r)
      if (at[r] == ranks[r].calls.size()) return true;
    return false;
  };
  while (!done()) {
    std::uint64_t number = 0;
    for (std::size_t r = 0; r < ranks.size(); ++r)
      number = std::max(number, ranks[r].calls[at[r]].call.number);
    bool all = true;
    for (std::size_t r = 0; r < ranks.size() && all; ++r) {
      while (at[r] < ranks[r].calls.size() && ranks[r].calls[at[r]].call.number < number) ++at[r];
      all = at[r] < ranks[r].calls.size() && ranks[r].calls[at[r]].call.number == number;
    }
    if (!all) continue;
    add_parts(run, ranks, clocks, at);
    names.push_back(&ranks[0].algorithms[ranks[0].calls[at[0]].algorithm]);
    for (std::size_t r = 0; r < ranks.size(); ++r) ++at[r], ++used[r];
  }
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    run.ranks[r].incomplete_calls = ranks[r].calls.size() - used[r];
  }
  std::set<std::string> distinct;
  for (const std::string* name : names) distinct.insert(*name);
  run.algorithms.assign(distinct.begin(), distinct.end());
  for (std::size_t c = 0; c < names.size(); ++c) {
    run.calls[c].algorithm =
        *std::lower_bound(run.algorithms.begin(), run.algorithms.end(), *names[c]);
  }
}

// Host and device count their calls apart; here they stand one after the other.
void sort_calls(MergedRun& run) {
  const std::size_t n = run.ranks.size();
  std::vector<std::size_t> order(run.calls.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return run.parts[a * n].entry < run.parts[b * n].entry;
  });
  std::vector<MergedCall> calls;
  std::vector<RankPart> parts;
  for (const std::size_t c : order) {
    calls.push_back(run.calls[c]);
    for (const RankPart& part : run.parts_of(c)) parts.push_back(part);
  }
  run.calls = std::move(calls);
  run.parts = std::move(parts);
}

}  // namespace

std::string_view split_text(SplitMethod method) {
  switch (method) {
    case SplitMethod::global_clock:
      return "by the last entry on the common clock";
    case SplitMethod::ranks_own:
      return "as each rank saw the last one enter";
    case SplitMethod::min_over_ranks:
      return "the shortest call of any rank counts as transfer";
  }
  return "";
}

MergedRun merge_records(std::span<const RankRecords> ranks, std::span<const ClockOffset> first,
                        std::span<const ClockOffset> last) {
  check(!ranks.empty(), "records of at least one rank");
  const std::vector<RankClock> clocks = clocks_of(ranks, first, last);
  MergedRun run;
  describe_clock(run, ranks, clocks);
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    const RankRecords& from = ranks[r];
    MergedRank& rank = run.ranks.emplace_back();
    rank.who = from.who;
    rank.run_ns = clocks[r].drift.to_rank_0(from.run.steady_ns);
    rank.last_ns = clocks[r].drift.to_rank_0(from.last.steady_ns);
    rank.wall_ns = from.last.steady_ns - from.run.steady_ns;
    rank.dropped_calls = from.dropped_calls;
    rank.dropped_steps = from.dropped_steps;
    for (const StepRecord& s : from.steps)
      rank.steps.push_back({s.mark, clocks[r].ns(s.start), clocks[r].ns(s.end)});
  }
  match_calls(run, ranks, clocks);
  if (ranks[0].device) sort_calls(run);
  give_plans_to_their_steps(run.calls);
  split_calls(run);
  return run;
}

}  // namespace shardlm
