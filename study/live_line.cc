#include "study/live_line.h"

#include <fmt/format.h>

#include <algorithm>

namespace shardlm {
namespace {

std::string size_text(double bytes) {
  if (bytes < 1000) return fmt::format("{:.0f} B", bytes);
  if (bytes < 1e6) return fmt::format("{:.0f} kB", bytes / 1e3);
  return fmt::format("{:.1f} MB", bytes / 1e6);
}

}  // namespace

StepCost last_step_cost(const CallLog& log, double ns_per_tick) {
  StepCost cost;
  const std::size_t n = log.steps.size();
  if (n == 0) return cost;
  const StepRecord& step = log.steps[n - 1];
  const double ms = ns_per_tick * 1e-6;
  // The first pass has no pass before it: it begins where its plan is known.
  const bool first = n == 1;
  std::int64_t begin = first ? step.start : log.steps[n - 2].end;
  std::int64_t in_calls = 0, wait = 0;
  for (std::size_t i = log.calls.size(); i-- > 0;) {
    const CallRecord& c = log.calls[i];
    if (c.start < begin) break;
    if (c.end > step.end) continue;
    in_calls += c.blocked < 0 ? c.end - c.start : std::min(c.blocked, c.end - c.start);
    wait += std::max<std::int64_t>(c.wait, 0);
    // A call that brings a plan or takes answers is all transfer where the rank cannot tell.
    if (c.wait < 0 && c.call.op == Op::all_reduce) cost.wait_known = false;
    cost.bytes += c.bytes;
    ++cost.messages;
  }
  cost.total_ms = static_cast<double>(step.end - begin) * ms;
  cost.wait_ms = cost.wait_known ? static_cast<double>(wait) * ms : 0;
  cost.transfer_ms = static_cast<double>(in_calls) * ms - cost.wait_ms;
  cost.compute_ms = cost.total_ms - static_cast<double>(in_calls) * ms;
  return cost;
}

std::string live_line(std::uint64_t token, std::span<const StepCost> ranks) {
  StepCost mean;
  double bytes = 0, messages = 0;
  const auto n = static_cast<double>(ranks.size());
  for (const StepCost& c : ranks) {
    mean.total_ms += c.total_ms / n;
    mean.compute_ms += c.compute_ms / n;
    mean.wait_ms += c.wait_ms / n;
    mean.transfer_ms += c.transfer_ms / n;
    mean.wait_known = mean.wait_known && c.wait_known;
    bytes += static_cast<double>(c.bytes) / n;
    messages += static_cast<double>(c.messages) / n;
  }
  const std::string calls =
      mean.wait_known ? fmt::format("{:.2f} wait + {:.2f} xfer", mean.wait_ms, mean.transfer_ms)
                      : fmt::format("{:.2f} comm", mean.wait_ms + mean.transfer_ms);
  return fmt::format("tok {}  {:.2f} ms = {:.2f} comp + {} | {} in {:.0f} msgs", token,
                     mean.total_ms, mean.compute_ms, calls, size_text(bytes), messages);
}

}  // namespace shardlm
