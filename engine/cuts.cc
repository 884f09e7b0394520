#include "engine/cuts.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "backend/candidate_order.h"

namespace shardlm {
namespace {

/// Mass of ids relative to the best one, which has 1.
class RelativeMass {
 public:
  RelativeMass(const SamplingParams& params, const Ranking& ranking)
      : sorted_(ranking.sorted),
        temperature_(params.temperature),
        best_(sorted_.front().penalised / temperature_) {}

  double of(std::size_t i) const {
    return std::exp(static_cast<double>(sorted_[i].penalised) / temperature_ - best_);
  }
  double of(const LogSumExp& set) const { return std::exp(set.max - best_) * set.sum; }
  double of_first(std::size_t n) const {
    double mass = 0;
    for (std::size_t i = 0; i < n; ++i) mass += of(i);
    return mass;
  }

 private:
  const std::vector<Candidate>& sorted_;
  double temperature_, best_;
};

}  // namespace

void merge_candidates(std::span<const LogitReply> by_rank, std::int64_t asked,
                      std::int64_t vocab_size, Ranking& ranking) {
  ranking.sorted.clear();
  const Candidate* frontier = nullptr;  // the best of the last candidates of ranks with more
  for (const LogitReply& reply : by_rank) {
    const std::vector<Candidate>& sent = reply.candidates;
    ranking.sorted.insert(ranking.sorted.end(), sent.begin(), sent.end());
    const bool has_more = asked < vocab_size && static_cast<std::int64_t>(sent.size()) >= asked;
    if (!has_more || sent.empty()) continue;
    if (frontier == nullptr || ranks_before(sent.back(), *frontier)) frontier = &sent.back();
  }
  std::sort(ranking.sorted.begin(), ranking.sorted.end(), ranks_before);
  ranking.complete = frontier == nullptr;
  const auto known_end =
      ranking.complete
          ? ranking.sorted.end()
          : std::upper_bound(ranking.sorted.begin(), ranking.sorted.end(), *frontier, ranks_before);
  ranking.known = static_cast<std::size_t>(known_end - ranking.sorted.begin());
}

namespace {

template <typename Element, typename PartOf>
LogSumExp join_parts(std::span<const Element> elements, const PartOf& part_of) {
  LogSumExp all{-std::numeric_limits<double>::infinity(), 0};
  for (const Element& e : elements) all.max = std::max(all.max, part_of(e).max);
  for (const Element& e : elements) {
    const LogSumExp& part = part_of(e);
    if (part.sum > 0) all.sum += part.sum * std::exp(part.max - all.max);
  }
  return all;
}

}  // namespace

LogSumExp join(std::span<const LogSumExp> parts) { return join_parts(parts, std::identity()); }

LogSumExp join(std::span<const LogitReply> by_rank, LogSumExp LogitReply::*part) {
  return join_parts(by_rank, [part](const LogitReply& r) -> const LogSumExp& { return r.*part; });
}

std::optional<std::size_t> kept_count(const SamplingParams& params, const Ranking& ranking,
                                      const LogSumExp& tempered) {
  std::size_t most = std::numeric_limits<std::size_t>::max();
  if (params.top_k > 0) most = static_cast<std::size_t>(params.top_k);
  if (ranking.complete) most = std::min(most, ranking.sorted.size());

  const RelativeMass mass(params, ranking);
  double wanted = std::numeric_limits<double>::infinity();  // the mass that top-p asks for
  if (params.top_p < 1) {
    if (params.top_k > 0 && ranking.known < most) return std::nullopt;
    wanted = params.top_p * (params.top_k > 0 ? mass.of_first(most) : mass.of(tempered));
  }
  double before = 0;  // mass of the ids before i
  for (std::size_t i = 0; i < most; ++i) {
    if (i == ranking.known) return std::nullopt;
    const double own = mass.of(i);
    if (i > 0 && (before >= wanted || own < params.min_p)) return i;
    before += own;
  }
  return most;
}

}  // namespace shardlm
