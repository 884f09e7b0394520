#include "study/site_rows.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "study/statistics.h"

namespace shardlm {
namespace {

constexpr double kUs = 1e3, kMs = 1e6;  // nanoseconds

using RowKey = std::tuple<Phase, SiteKind, int, Op>;

struct RowSums {
  SiteRow row;
  std::set<std::string_view> algorithms;
  std::set<std::uint64_t> steps;
  double call_ns = 0, wait_ns = 0, hidden_ns = 0;
  std::uint64_t bytes_of_ranks = 0, wire = 0;
  bool wire_known = true;
  std::vector<double> transfers_us, models_us;
};

std::optional<double> model_us(const MergedCall& call, std::uint64_t bytes, int ranks,
                               const LinkCost* link) {
  const auto algorithm = parse_algorithm(call.algorithm);
  if (link == nullptr || call.call.op != Op::all_reduce || !algorithm) return std::nullopt;
  const auto terms = cost_terms(*algorithm, ranks, static_cast<double>(bytes));
  if (!terms) return std::nullopt;
  return terms->seconds(*link) * 1e6;
}

void add_call(RowSums& sums, const MergedCall& call, std::span<const RankPart> parts,
              const LinkCost* link) {
  ++sums.row.calls;
  sums.algorithms.insert(call.algorithm);
  sums.steps.insert(call.step.number);
  for (const RankPart& part : parts) {
    sums.call_ns += static_cast<double>(part.call());
    sums.wait_ns += static_cast<double>(part.wait);
    sums.hidden_ns += static_cast<double>(part.hidden());
    sums.bytes_of_ranks += part.bytes;
    sums.wire_known = sums.wire_known && part.wire_tx >= 0;
    sums.wire += static_cast<std::uint64_t>(std::max<std::int64_t>(part.wire_tx, 0));
  }
  sums.transfers_us.push_back(static_cast<double>(call.transfer) / kUs);
  const auto model = model_us(call, parts[0].bytes, static_cast<int>(parts.size()), link);
  if (model) sums.models_us.push_back(*model);
}

void finish(RowSums& sums, std::size_t ranks) {
  SiteRow& row = sums.row;
  // What is outside of passes is one lot.
  row.steps = row.phase == Phase::load ? 1 : sums.steps.size();
  row.algorithms = fmt::format("{}", fmt::join(sums.algorithms, " + "));
  row.bytes = sums.bytes_of_ranks / ranks;
  if (sums.wire_known) row.wire_tx = sums.wire;
  const double per_step_ms = kMs * static_cast<double>(ranks * row.steps);
  row.call_ms = sums.call_ns / per_step_ms;
  row.wait_ms = sums.wait_ns / per_step_ms;
  row.hidden_ms = sums.hidden_ns / per_step_ms;
  row.transfer_ms = row.call_ms - row.wait_ms;
  row.p50_us = supported_quantile(sums.transfers_us, 0.5);
  row.p99_us = supported_quantile(sums.transfers_us, 0.99);
  row.median_transfer_us = median(sums.transfers_us);
  if (sums.models_us.size() != row.calls) return;
  row.model_us = median(sums.models_us);
  if (row.median_transfer_us > 0) row.efficiency = *row.model_us / row.median_transfer_us;
}

}  // namespace

std::vector<SiteRow> site_rows(const MergedRun& run, bool per_layer, const LinkCost* link) {
  std::map<RowKey, RowSums> rows;
  for (std::size_t c = 0; c < run.calls.size(); ++c) {
    const MergedCall& call = run.calls[c];
    const int layer = per_layer ? call.call.site.layer : -1;
    RowSums& sums = rows[{call.step.phase, call.call.site.kind, layer, call.call.op}];
    sums.row.site = {call.call.site.kind, layer};
    sums.row.op = call.call.op;
    sums.row.phase = call.step.phase;
    add_call(sums, call, run.parts_of(c), link);
  }
  std::vector<SiteRow> result;
  for (auto& [key, sums] : rows) {
    finish(sums, run.ranks.size());
    result.push_back(std::move(sums.row));
  }
  return result;
}

std::optional<LinkCost> fit_link(const MergedRun& run) {
  std::map<std::pair<Algorithm, std::uint64_t>, std::vector<double>> times;
  for (std::size_t c = 0; c < run.calls.size(); ++c) {
    const auto algorithm = parse_algorithm(run.calls[c].algorithm);
    if (run.calls[c].call.op != Op::all_reduce || !algorithm) continue;
    times[{*algorithm, run.parts_of(c)[0].bytes}].push_back(
        static_cast<double>(run.calls[c].transfer) * 1e-9);
  }
  std::vector<TimedSum> sums;
  for (auto& [key, seconds] : times)
    sums.push_back({key.first, static_cast<double>(key.second), median(seconds)});
  return fit_link(sums, static_cast<int>(run.ranks.size()));
}

std::vector<SizeBucket> size_histogram(const MergedRun& run) {
  std::map<int, SizeBucket> buckets;
  for (std::size_t c = 0; c < run.calls.size(); ++c) {
    std::uint64_t bytes = 0;
    for (const RankPart& part : run.parts_of(c)) bytes += part.bytes;
    bytes /= run.ranks.size();
    const auto width = static_cast<int>(std::bit_width(bytes));
    SizeBucket& bucket = buckets[width];
    bucket.from = width == 0 ? 0 : std::uint64_t{1} << (width - 1);
    bucket.to = std::uint64_t{1} << std::min(width, 63);
    ++bucket.calls;
    bucket.bytes += bytes;
  }
  std::vector<SizeBucket> result;
  for (const auto& [width, bucket] : buckets) result.push_back(bucket);
  return result;
}

std::string check_traffic(const MergedRun& run, const ModelConfig& model, bool& as_expected) {
  struct Sums {
    std::int64_t calls = 0, started = 0;
    std::uint64_t bytes = 0, expected = 0;
  };
  std::map<std::uint64_t, Sums> steps;
  for (std::size_t c = 0; c < run.calls.size(); ++c) {
    const MergedCall& call = run.calls[c];
    const bool of_pass = call.call.op == Op::all_reduce && call.step.number > 0;
    if (!of_pass) continue;
    const auto elements = static_cast<std::uint64_t>(call.step.rows * model.n_embd);
    Sums& sums = steps[call.step.number];
    ++sums.calls;
    sums.started += run.parts_of(c)[0].blocked >= 0 ? 1 : 0;
    sums.bytes += run.parts_of(c)[0].bytes;
    sums.expected += elements * bits(call.dtype) / 8;
  }
  // The oldest pass may have lost its first calls.
  const bool lost = std::any_of(run.ranks.begin(), run.ranks.end(), [](const MergedRank& r) {
    return r.dropped_calls + r.incomplete_calls > 0;
  });
  if (lost && !steps.empty()) steps.erase(steps.begin());
  const std::int64_t calls_each = expected_traffic(model, 1).all_reduces;
  std::size_t wrong = 0;
  for (const auto& [number, sums] : steps) {
    // Sums go on behind arithmetic where half of the rows are computed while the others are summed.
    const std::uint64_t parts = sums.started > 0 ? 2 : 1;
    const bool right = sums.calls == calls_each * static_cast<std::int64_t>(parts) &&
                       sums.bytes * parts == sums.expected;
    wrong += right ? 0 : 1;
  }
  as_expected = wrong == 0;
  return fmt::format(
      "{} of {} passes have the {} all-reduces of tokens x {} elements that the "
      "model's formula says",
      steps.size() - wrong, steps.size(), calls_each, model.n_embd);
}

}  // namespace shardlm
