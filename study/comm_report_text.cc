#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "study/comm_report.h"

namespace shardlm {
namespace {

using Table = std::vector<std::vector<std::string>>;

// Columns as wide as they must be: the first `left` ones begin at the left, the others end at the
// right.
std::string table_text(const Table& rows, std::size_t left) {
  std::vector<std::size_t> width(rows[0].size(), 0);
  for (const auto& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) width[i] = std::max(width[i], row[i].size());
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line = " ";
    for (std::size_t i = 0; i < row.size(); ++i) {
      line += i < left ? fmt::format(" {:<{}}", row[i], width[i])
                       : fmt::format("  {:>{}}", row[i], width[i]);
    }
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return text;
}

template <class Number>
std::string or_dash(const std::optional<Number>& value, const char* format) {
  return value ? fmt::format(fmt::runtime(format), *value) : "-";
}

// Whole if it is: 25 calls, 3072 bytes; else with a digit behind the point.
std::string per(double total, double n) {
  const double value = n > 0 ? total / n : 0;
  return fmt::format("{:.{}f}", value, value == std::floor(value) ? 0 : 1);
}

std::string header_text(const CommReport& r) {
  std::string text = fmt::format("communication of {} {}, {} calls\n", r.ranks.size(),
                                 r.ranks.size() == 1 ? "rank" : "ranks", r.calls);
  text += fmt::format("  clock: {}, error at most {:.3g} us, {} violations of causality", r.clock,
                      r.clock_error_us, r.violations);
  if (r.violations > 0) text += fmt::format(", by up to {:.3g} us", r.worst_violation_us);
  text += fmt::format("\n  waiting and transfer: {}\n", r.split);
  if (!r.model_source.empty()) text += fmt::format("  model: {}\n", r.model_source);
  if (!r.traffic_check.empty())
    text += fmt::format("  {}{}\n", r.traffic_as_expected ? "" : "WRONG COUNTS: ", r.traffic_check);
  if (!r.exactness.empty()) text += fmt::format("  sums: {}\n", r.exactness);
  if (r.quality) text += fmt::format("  {}\n", quality_text(*r.quality));
  if (r.dropped_calls + r.dropped_steps > 0) {
    text += fmt::format(
        "  INCOMPLETE: the {} oldest calls and {} oldest passes of all ranks did not fit into "
        "their "
        "rings and are missing below\n",
        r.dropped_calls, r.dropped_steps);
  }
  if (r.incomplete_calls > 0) {
    text += fmt::format("  {} records are left out since not all ranks have one of their call\n",
                        r.incomplete_calls);
  }
  return text;
}

std::string sites_text(const CommReport& r) {
  Table rows = {{"site", "phase", "algorithm", "calls/step", "bytes/call", "bytes/step",
                 "sent/step", "call ms", "wait ms", "transfer ms", "hidden ms", "% of step",
                 "p50 us", "p99 us", "model us", "eff"}};
  for (const SiteRow& s : r.sites) {
    const auto calls = static_cast<double>(s.calls), steps = static_cast<double>(s.steps);
    const auto bytes = static_cast<double>(s.bytes);
    const double wire = static_cast<double>(s.wire_tx.value_or(0));
    const bool outside = s.phase == Phase::load;
    rows.push_back({site_text(s.site), outside ? "outside" : std::string(phase_text(s.phase)),
                    s.algorithms.empty() ? "-" : s.algorithms, per(calls, steps), per(bytes, calls),
                    per(bytes, steps), s.wire_tx ? per(wire, steps) : "-",
                    fmt::format("{:.4g}", s.call_ms), fmt::format("{:.4g}", s.wait_ms),
                    fmt::format("{:.4g}", s.transfer_ms), fmt::format("{:.4g}", s.hidden_ms),
                    outside ? "-" : fmt::format("{:.1f}", 100 * s.share),
                    or_dash(s.p50_us, "{:.2f}"), or_dash(s.p99_us, "{:.2f}"),
                    or_dash(s.model_us, "{:.2f}"), or_dash(s.efficiency, "{:.2f}")});
  }
  return table_text(rows, 3);
}

std::string phases_text(const CommReport& r) {
  Table rows = {{"phase", "steps", "tokens", "step ms", "compute ms", "wait ms", "transfer ms",
                 "other ms", "overlap %", "load balance", "serialisation", "transfer", "parallel"}};
  for (const PhaseRow& p : r.phases) {
    std::vector<std::string> row = {std::string(phase_text(p.phase)), std::to_string(p.steps),
                                    std::to_string(p.tokens)};
    for (const double ms : {p.step_ms, p.compute_ms, p.wait_ms, p.transfer_ms, p.other_ms})
      row.push_back(fmt::format("{:.4g}", ms));
    row.push_back(fmt::format("{:.1f}", 100 * p.overlap()));
    for (const double f : {p.load_balance, p.serialisation, p.transfer, p.parallel()})
      row.push_back(fmt::format("{:.3f}", f));
    rows.push_back(std::move(row));
  }
  return table_text(rows, 1);
}

std::string ranks_text(const CommReport& r) {
  Table rows = {
      {"rank", "host", "cores", "compute s", "wait s", "transfer s", "other s", "sum s", "wall s"}};
  for (std::size_t i = 0; i < r.ranks.size(); ++i) {
    const RankRow& k = r.ranks[i];
    std::vector<std::string> row = {std::to_string(i), k.who.host, k.who.cores};
    for (const double s : {k.compute_s, k.wait_s, k.transfer_s, k.other_s, k.sum_s(), k.wall_s})
      row.push_back(fmt::format("{:.4f}", s));
    rows.push_back(std::move(row));
  }
  return table_text(rows, 3) +
         fmt::format("  sums close to {:.3f} % of the wall time{}\n", 100 * r.worst_sum_error,
                     r.sums_close() ? "" : ": MORE THAN 1 %, THE TABLES DO NOT HOLD");
}

std::string sizes_text(const CommReport& r) {
  Table rows = {{"bytes", "calls", "total"}};
  for (const SizeBucket& b : r.sizes) {
    rows.push_back({b.from == 0 ? "0" : fmt::format("{} - {}", b.from, b.to - 1),
                    std::to_string(b.calls), std::to_string(b.bytes)});
  }
  return table_text(rows, 0);
}

}  // namespace

std::string report_text(const CommReport& report) {
  return header_text(report) + "\n" + sites_text(report) + "\n" + phases_text(report) + "\n" +
         ranks_text(report) + "\n" + sizes_text(report);
}

}  // namespace shardlm
