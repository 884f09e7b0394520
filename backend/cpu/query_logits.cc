#include "backend/cpu/query_logits.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "backend/candidate_order.h"
#include "backend/cpu/logit_math.h"
#include "base/error.h"
#include "base/philox.h"

namespace shardlm {
namespace {

// Stands for "no such id": never allowed, never a candidate, weight 0.
constexpr float kAbsent = -std::numeric_limits<float>::infinity();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// Up to kLogitChunk columns of a row, padded with absent ids to whole groups.
class Chunk {
 public:
  Chunk() = default;
  Chunk(const Chunk&) = delete;
  Chunk& operator=(const Chunk&) = delete;

  void resize(std::int32_t first, std::size_t n_columns) {
    const std::size_t padded = (n_columns + kLogitGroup - 1) / kLogitGroup * kLogitGroup;
    first_id = first;
    raw = std::span(raw_).first(padded);
    penalised = std::span(penalised_).first(padded);
    weight = std::span(weight_).first(padded);
    u = std::span(u_).first(padded);
  }
  std::int32_t id(std::size_t i) const { return first_id + static_cast<std::int32_t>(i); }

  std::int32_t first_id = 0;
  std::span<float> raw, penalised;
  std::span<double> weight;  ///< of the tempered logits: exp(penalised / temperature - max)
  std::span<double> u;       ///< uniform numbers, with noise

 private:
  alignas(64) std::array<float, kLogitChunk> raw_;
  alignas(64) std::array<float, kLogitChunk> penalised_;
  alignas(64) std::array<double, kLogitChunk> weight_;
  alignas(64) std::array<double, kLogitChunk> u_;
};

/// The n best candidates of those offered, in an order in which ids ascend.
class Best {
 public:
  Best(std::vector<Candidate>& kept, int n, std::size_t width)
      : kept_(kept), n_(static_cast<std::size_t>(std::max(n, 0))) {
    kept_.clear();
    kept_.reserve(std::min(n_, width));
  }

  /// Only a higher score than this can enter (equal scores: the ids before came first).
  double threshold() const {
    if (n_ == 0) return kInfinity;
    return kept_.size() < n_ ? -kInfinity : kept_.front().score;
  }

  void offer(const Candidate& candidate) {
    if (candidate.score <= threshold()) return;
    if (kept_.size() == n_) {
      std::pop_heap(kept_.begin(), kept_.end(), ranks_before);  // the worst goes to the back
      kept_.back() = candidate;
    } else {
      kept_.push_back(candidate);
      if (kept_.size() < n_) return;
      std::make_heap(kept_.begin(), kept_.end(), ranks_before);
    }
    std::push_heap(kept_.begin(), kept_.end(), ranks_before);
  }

  void finish() { std::sort(kept_.begin(), kept_.end(), ranks_before); }

 private:
  std::vector<Candidate>& kept_;  // a heap, worst in front, once it holds n_
  std::size_t n_;
};

float penalise(float logit, const LogitQuery& query, const LogitPenalty& penalty) {
  float x = logit;
  if (penalty.repeated) x = x > 0 ? x / query.repetition : x * query.repetition;
  x -= penalty.subtract;
  return std::isfinite(x) ? x : std::copysign(std::numeric_limits<float>::max(), x);
}

/// Eight chains of additions whatever the instruction set, so that it cannot change a sum's bits.
double sum(std::span<const double> values) {
  std::array<double, 8> chain{};
  for (std::size_t i = 0; i < values.size(); i += 8) {
    for (std::size_t lane = 0; lane < 8; ++lane) chain[lane] += values[i + lane];
  }
  return ((chain[0] + chain[1]) + (chain[2] + chain[3])) +
         ((chain[4] + chain[5]) + (chain[6] + chain[7]));
}

float max_of(std::span<const float> values) {
  std::array<float, 8> lanes;
  lanes.fill(kAbsent);
  for (std::size_t i = 0; i < values.size(); i += 8) {
    for (std::size_t lane = 0; lane < 8; ++lane) {
      lanes[lane] = values[i + lane] > lanes[lane] ? values[i + lane] : lanes[lane];
    }
  }
  return *std::max_element(lanes.begin(), lanes.end());
}

class RowQuery {
 public:
  RowQuery(std::span<const float> row, const VocabShard& shard, const LogitQuery& query,
           LogitReply& reply)
      : row_(row), shard_(shard), query_(query), reply_(reply) {
    divisor_ = query.temperature > 0 ? query.temperature : 1.0;
    same_weights_ = divisor_ == 1.0 && query.penalties.empty();
    if (!query.noise) return;
    check(query.temperature > 0, "noise needs a temperature above 0");
    check(query.position <= std::numeric_limits<std::uint32_t>::max(), "position below 2^32");
    noise_ = {query.seed, query.sequence, static_cast<std::uint32_t>(query.position)};
  }

  void answer(Chunk& chunk) {
    reply_.first_bad_id = -1;
    reply_.raw = reply_.tempered = {kAbsent, 0};
    reply_.target.reset();
    Best best(reply_.candidates, query_.n_candidates, row_.size());
    Best top(reply_.top, query_.n_top, row_.size());
    if (!find_maxima(chunk) || reply_.raw.max == kAbsent) return;
    for (std::size_t first = 0; first < row_.size(); first += kLogitChunk) {
      load(first, chunk);
      add_weights(chunk);
      if (query_.noise) {
        uniforms(noise_, chunk.first_id, chunk.u);
        offer_noisy(chunk, best);
      } else {
        offer(chunk, chunk.penalised, best);
      }
      if (query_.n_top > 0) offer(chunk, chunk.raw, top);
    }
    if (same_weights_) reply_.tempered = reply_.raw;
    best.finish();
    top.finish();
    answer_target();
  }

 private:
  void load(std::size_t first, Chunk& chunk) const {
    const std::size_t n = std::min(kLogitChunk, row_.size() - first);
    chunk.resize(shard_.begin + static_cast<std::int32_t>(first), n);
    const float* from = row_.data() + first;
    const std::uint8_t* allowed = shard_.allowed.data() + first;
    for (std::size_t i = 0; i < n; ++i) chunk.raw[i] = allowed[i] != 0 ? from[i] : kAbsent;
    std::fill(chunk.raw.begin() + static_cast<std::ptrdiff_t>(n), chunk.raw.end(), kAbsent);
    std::copy(chunk.raw.begin(), chunk.raw.end(), chunk.penalised.begin());
    auto penalty =
        std::lower_bound(query_.penalties.begin(), query_.penalties.end(), chunk.first_id,
                         [](const LogitPenalty& p, std::int32_t id) { return p.id < id; });
    for (; penalty != query_.penalties.end() && penalty->id < chunk.id(n); ++penalty) {
      const auto i = static_cast<std::size_t>(penalty->id - chunk.first_id);
      if (chunk.raw[i] != kAbsent) {
        chunk.penalised[i] = penalise(chunk.raw[i], query_, *penalty);
      }
    }
  }

  /// The maxima of raw and of tempered logits; false if an allowed logit is not finite.
  bool find_maxima(Chunk& chunk) {
    float raw = kAbsent, penalised = kAbsent;
    for (std::size_t first = 0; first < row_.size(); first += kLogitChunk) {
      if (find_bad(first)) return false;
      load(first, chunk);
      raw = std::max(raw, max_of(chunk.raw));
      penalised = std::max(penalised, max_of(chunk.penalised));
    }
    reply_.raw.max = raw;
    reply_.tempered.max = static_cast<double>(penalised) / divisor_;
    return true;
  }

  bool find_bad(std::size_t first) {
    const std::size_t n = std::min(kLogitChunk, row_.size() - first);
    const auto is_bad = [this, first](std::size_t i) {
      // Not std::isfinite: this form is one comparison and becomes SIMD.
      return static_cast<int>(shard_.allowed[first + i] != 0) &
             static_cast<int>(!(std::abs(row_[first + i]) <= std::numeric_limits<float>::max()));
    };
    int any = 0;
    for (std::size_t i = 0; i < n; ++i) any |= is_bad(i);
    if (any == 0) return false;
    std::size_t i = 0;
    while (is_bad(i) == 0) ++i;
    reply_.first_bad_id = shard_.begin + static_cast<std::int32_t>(first + i);
    return true;
  }

  /// Both log-sum-exps; leaves the tempered weights in the chunk.
  void add_weights(Chunk& chunk) {
    shifted_exp(chunk.raw, 1.0, reply_.raw.max, chunk.weight);
    reply_.raw.sum += sum(chunk.weight);
    if (same_weights_) return;
    shifted_exp(chunk.penalised, divisor_, reply_.tempered.max, chunk.weight);
    reply_.tempered.sum += sum(chunk.weight);
  }

  Candidate candidate(const Chunk& chunk, std::size_t i, double score) const {
    return {chunk.id(i), chunk.raw[i], chunk.penalised[i], score};
  }

  void offer(const Chunk& chunk, std::span<const float> scores, Best& best) const {
    for (std::size_t group = 0; group < scores.size(); group += kLogitGroup) {
      const double threshold = best.threshold();
      if (threshold == kInfinity) return;
      const auto limit = static_cast<float>(threshold);  // exact: it is one of the scores
      int any = 0;
      for (std::size_t i = group; i < group + kLogitGroup; ++i)
        any |= static_cast<int>(scores[i] > limit);
      if (any == 0) continue;
      for (std::size_t i = group; i < group + kLogitGroup; ++i) {
        if (scores[i] != kAbsent) best.offer(candidate(chunk, i, scores[i]));
      }
    }
  }

  /// The score is x + g with g = -log(E), E = -log(u) >= 1 - u. It beats a threshold B only if
  /// E < exp(x - B) = weight * exp(max - B): ids that 1 - u already rules out cost no logarithm.
  void offer_noisy(const Chunk& chunk, Best& best) const {
    double limit = race_limit(best);
    for (std::size_t i = 0; i < chunk.u.size(); ++i) {
      if (1.0 - chunk.u[i] > limit * chunk.weight[i]) continue;  // false for infinity times 0
      if (chunk.raw[i] == kAbsent) continue;
      const double x = static_cast<double>(chunk.penalised[i]) / divisor_;
      best.offer(candidate(chunk, i, x + gumbel(chunk.u[i])));
      limit = race_limit(best);
    }
  }

  double race_limit(const Best& best) const {
    constexpr double kRounding = 1 + 1e-9;    // far above the rounding of the two exponentials
    constexpr double kUnderflowSafe = 1e150;  // weights that underflow would rule out too much
    const double limit = std::exp(reply_.tempered.max - best.threshold()) * kRounding;
    return limit < kUnderflowSafe ? limit : kInfinity;
  }

  void answer_target() {
    const std::int64_t column = std::int64_t{query_.target} - shard_.begin;
    if (column < 0 || column >= static_cast<std::int64_t>(row_.size())) return;
    const auto i = static_cast<std::size_t>(column);
    if (shard_.allowed[i] != 0) reply_.target = row_[i];
  }

  std::span<const float> row_;
  const VocabShard& shard_;
  const LogitQuery& query_;
  LogitReply& reply_;
  double divisor_ = 1;
  bool same_weights_ = false;  // the tempered logits are the raw ones
  NoiseKey noise_;
};

}  // namespace

void query_logits_cpu(const Tensor& logits, const VocabShard& shard,
                      std::span<const LogitQuery> queries, std::span<LogitReply> replies) {
  const auto n = static_cast<std::int64_t>(queries.size());
  check(logits.rows() == n && replies.size() == queries.size(), "one row and one reply a query");
  check(static_cast<std::int64_t>(shard.allowed.size()) == logits.cols(), "one flag a column");
  Chunk chunk;
  for (std::size_t i = 0; i < queries.size(); ++i) {
    const std::span<const float> row(logits.row(static_cast<std::int64_t>(i)),
                                     shard.allowed.size());
    RowQuery(row, shard, queries[i], replies[i]).answer(chunk);
  }
}

}  // namespace shardlm
