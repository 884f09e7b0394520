#include "study/work_shares.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>

namespace shardlm {
namespace {

double real(std::int64_t n) { return static_cast<double>(n); }

// At the logarithm of x, between (or at the ends of) the known places.
double between(const std::map<double, double>& known, double x) {
  const auto above = known.lower_bound(x);
  if (above == known.begin()) return above->second;
  if (above == known.end()) return known.rbegin()->second;
  const auto below = std::prev(above);
  const double share = std::log(x / below->first) / std::log(above->first / below->first);
  return below->second + share * (above->second - below->second);
}

// Seconds a GFLOP at these rows and bytes, of the rate that `rate` takes from a measurement.
double at(const ComputeFacts& facts, double rows, double bytes,
          const std::function<double(const MatmulRate&)>& rate) {
  std::map<double, std::map<double, double>> by_rows;
  for (const MatmulRate& m : facts.matmul)
    by_rows[real(m.rows)][static_cast<double>(m.bytes)] = 1 / rate(m);
  std::map<double, double> of_rows;
  for (const auto& [n, sizes] : by_rows) of_rows[n] = between(sizes, std::max(bytes, 1.0));
  return between(of_rows, std::max(rows, 1.0));
}

}  // namespace

PassWork pass_work(const ModelConfig& c, double rows, double keys, double logit_rows) {
  const double d = real(c.n_embd), layers = real(c.n_layer);
  return {.attention = 2 * rows * layers * (4 * d * d + 2 * d * keys),
          .mlp = 2 * rows * layers * 2 * d * real(c.n_inner),
          .head = 2 * logit_rows * d * real(c.vocab_size)};
}

LargestShares largest_shares(const ModelConfig& c, int ranks, const Precision& precision) {
  LargestShares most{0, 0, 0};
  for (const RankShare& share : shard_plan(c, ranks, precision)) {
    most.attention = std::max(most.attention, real(share.heads.size()) / real(c.n_head));
    most.mlp = std::max(most.mlp, real(share.mlp_columns.size()) / real(c.n_inner));
    most.head = std::max(most.head, real(share.vocab_rows.size()) / real(c.vocab_size));
    most.weight_bytes = std::max(most.weight_bytes, share.weight_bytes);
    most.kv_bytes_per_token = std::max(most.kv_bytes_per_token, share.kv_bytes_per_token);
  }
  return most;
}

std::optional<double> slowness(const ComputeFacts& facts, double rows, double bytes,
                               int neighbours) {
  if (facts.matmul.empty()) return std::nullopt;
  const double alone =
      at(facts, rows, bytes, [](const MatmulRate& m) { return m.alone_gflop_per_s; });
  if (facts.ranks_at_once <= 1) return alone;
  const double all = at(facts, rows, bytes, [](const MatmulRate& m) { return m.all_gflop_per_s; });
  const double share = (neighbours - 1.0) / (facts.ranks_at_once - 1.0);
  return alone + std::max(0.0, all - alone) * share;
}

}  // namespace shardlm
