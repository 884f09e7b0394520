#include "backend/cpu/query_logits.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "backend/cpu/logit_math.h"
#include "base/error.h"
#include "base/philox.h"

namespace shardlm {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr std::int64_t kPieceColumns = kLogitPiece;
// Below this many pieces a thread is not worth waking.
constexpr std::int64_t kGrainPieces = 4;
// Columns between two looks at what the best so far rule out.
constexpr std::size_t kStride = 256;
constexpr std::size_t kRaceStride = 1024;

double divisor_of(const LogitQuery& query) {
  return query.temperature > 0 ? query.temperature : 1.0;
}

std::size_t clipped(int n, std::size_t width) {
  return std::min(static_cast<std::size_t>(std::max(n, 0)), width);
}

float penalise(float logit, const LogitQuery& query, const LogitPenalty& penalty) {
  float x = logit;
  if (penalty.repeated) x = x > 0 ? x / query.repetition : x * query.repetition;
  x -= penalty.subtract;
  return std::isfinite(x) ? x : std::copysign(std::numeric_limits<float>::max(), x);
}

void check_query(const LogitQuery& query) {
  check(query.n_bounds >= 0 && query.n_bounds <= static_cast<int>(kLogitBounds),
        "as many bounds as a query has room for");
  if (!query.noise) return;
  check(query.temperature > 0, "noise needs a temperature above 0");
  check(query.position <= std::numeric_limits<std::uint32_t>::max(), "position below 2^32");
}

/// What a worker fills anew for each piece.
struct Scratch {
  LogitPiece piece;
  LogitIndices found;
};

}  // namespace

/// One piece of a row: `row` and `allowed` begin at its first column.
class LogitQueries::PieceWork {
 public:
  PieceWork(const float* row, const std::uint8_t* allowed, std::int32_t first_id,
            const LogitQuery& query, Scratch& scratch)
      : row_(row),
        allowed_(allowed),
        first_id_(first_id),
        query_(query),
        piece_(scratch.piece),
        found_(scratch.found),
        divisor_(divisor_of(query)) {}

  void run(std::size_t n, Part& part, PieceSums& sums) {
    sums = PieceSums{};
    const LogitMax raw = load_logits(row_, allowed_, n, piece_);
    sums.raw_max = sums.penalised_max = raw.max;
    if (!raw.finite) {
      sums.first_bad_id = first_bad_id();
      return;
    }
    if (raw.max == kAbsentLogit) return;
    if (part.top.wanted() > 0) offer_best(raw.max, part.top);
    if (query_.raw_sum) sums.raw = sum_exp(piece_, raw.max, 1.0);
    const bool penalised = penalise_piece();
    if (penalised) sums.penalised_max = max_logit(piece_);
    if (query_.tempered_sum) {
      const bool same = query_.raw_sum && !penalised && divisor_ == 1.0;
      sums.tempered = same ? sums.raw : sum_exp(piece_, sums.penalised_max, 1 / divisor_);
    }
    if (query_.n_bounds > 0) sums.before = sum_before_bounds(sums.penalised_max);
    if (part.candidates.wanted() == 0) return;
    if (query_.noise) {
      race(sums.penalised_max, part.candidates);
    } else {
      offer_best(sums.penalised_max, part.candidates);
    }
  }

 private:
  std::int32_t id(std::size_t i) const { return first_id_ + static_cast<std::int32_t>(i); }

  std::int32_t first_bad_id() const {
    std::size_t i = 0;
    while (allowed_[i] == 0 || std::isfinite(row_[i])) ++i;
    return id(i);
  }

  /// True if it changed a logit.
  bool penalise_piece() {
    bool changed = false;
    auto penalty =
        std::lower_bound(query_.penalties.begin(), query_.penalties.end(), first_id_,
                         [](const LogitPenalty& p, std::int32_t first) { return p.id < first; });
    for (; penalty != query_.penalties.end() && penalty->id < id(piece_.size); ++penalty) {
      const auto i = static_cast<std::size_t>(penalty->id - first_id_);
      if (piece_[i] == kAbsentLogit) continue;
      piece_[i] = penalise(row_[i], query_, *penalty);
      changed = true;
    }
    return changed;
  }

  Candidate candidate(std::size_t i, double score) const {
    return {id(i), row_[i], piece_[i], score};
  }

  void offer_best(float max, BestCandidates& best) {
    if (max <= best.threshold()) return;
    if (best.wanted() == 1) {
      std::size_t i = 0;
      while (piece_[i] != max) ++i;
      return best.offer(candidate(i, max));
    }
    const float floor = best.threshold() == -kInfinity ? floor_of(best.wanted()) : kAbsentLogit;
    for (std::size_t begin = 0; begin < piece_.padded(); begin += kStride) {
      // The threshold is exact in float32: it is one of the scores.
      const float limit = std::max(floor, static_cast<float>(best.threshold()));
      const std::size_t end = std::min(begin + kStride, piece_.padded());
      const std::size_t n = find_above(piece_, begin, end, limit, found_);
      for (std::size_t k = 0; k < n; ++k) {
        best.offer(candidate(found_[k], piece_[found_[k]]));
      }
    }
    if (floor > kAbsentLogit) best.settle();
  }

  /// Just below a logit that n ids of the piece reach, so that few others are looked at before
  /// there is a threshold: the n-th best of the maxima of 128 sets of columns.
  float floor_of(std::size_t n) const {
    std::array<float, 128> maxima;
    if (n > maxima.size() / 2) return kAbsentLogit;
    maxima.fill(kAbsentLogit);
    const float* x = piece_.data();
    for (std::size_t begin = 0; begin < piece_.padded(); begin += maxima.size()) {
      const std::size_t count = std::min(maxima.size(), piece_.padded() - begin);
      for (std::size_t j = 0; j < count; ++j) {
        maxima[j] = x[begin + j] > maxima[j] ? x[begin + j] : maxima[j];
      }
    }
    const auto nth = maxima.begin() + static_cast<std::ptrdiff_t>(n - 1);
    std::nth_element(maxima.begin(), nth, maxima.end(), std::greater<>());
    return std::nextafter(*nth, kAbsentLogit);
  }

  /// The score is x / T + g with g = -log(E), E = -log(u). It beats a threshold B only if E is
  /// below exp(x / T - B) = exp((x - max) / T) * exp(max / T - B): few ids cost a logarithm.
  void race(float max, BestCandidates& best) {
    LogitRace race{
        .key = {query_.seed, query_.sequence, static_cast<std::uint32_t>(query_.position)},
        .first_id = first_id_,
        .max = max,
        .temperature = divisor_};
    const std::size_t odd = static_cast<std::size_t>(first_id_ % 2);
    const std::size_t end = (piece_.size + odd + kLogitGroup - 1) / kLogitGroup * kLogitGroup;
    // Until there is a threshold strides double: as few ids pass each as are wanted.
    std::size_t stride = best.threshold() == -kInfinity ? kLogitGroup : kRaceStride;
    for (std::size_t begin = 0; begin < end;) {
      const std::size_t stop = std::min(begin + stride, end);
      race.limit = race_limit(max, best);
      const std::size_t n = find_runners(piece_, begin, stop, race, found_);
      for (std::size_t k = 0; k < n; ++k) {
        if (found_[k] >= odd) offer_noisy(found_[k] - odd, race.key, best);
      }
      begin = stop;
      stride = std::min(2 * stride, kRaceStride);
    }
  }

  void offer_noisy(std::size_t i, const NoiseKey& key, BestCandidates& best) const {
    if (i >= piece_.size || piece_[i] == kAbsentLogit) return;
    const double x = static_cast<double>(piece_[i]) / divisor_;
    best.offer(candidate(i, x + gumbel(uniform(key, id(i)))));
  }

  double race_limit(float max, const BestCandidates& best) const {
    // No noise is below -log(-log(2^-53)) = -3.61: this much the id with `max` has for certain.
    constexpr double kLeastNoise = -3.62;
    const double x = static_cast<double>(max) / divisor_;
    double threshold = best.threshold();
    if (best.wanted() == 1) threshold = std::max(threshold, x + kLeastNoise);
    return std::exp(x - threshold);
  }

  std::array<double, kLogitBounds> sum_before_bounds(float max) const {
    std::array<float, kLogitBounds> limits;
    limits.fill(std::numeric_limits<float>::infinity());
    const auto n_bounds = static_cast<std::size_t>(query_.n_bounds);
    for (std::size_t j = 0; j < n_bounds; ++j) {
      const LogitBound& bound = query_.bounds[j];
      // Equal logits come before the bound in pieces that lie before its id.
      limits[j] = bound.id < id(piece_.size)
                      ? bound.penalised
                      : std::nextafter(bound.penalised, -std::numeric_limits<float>::infinity());
    }
    std::array<double, kLogitBounds> sums = sum_exp_above(piece_, max, 1 / divisor_, limits);
    for (std::size_t j = 0; j < n_bounds; ++j) sums[j] += sum_equals_before(query_.bounds[j], max);
    return sums;
  }

  /// Of the piece in which the bound's id lies.
  double sum_equals_before(const LogitBound& bound, float max) const {
    if (bound.id < first_id_ || bound.id >= id(piece_.size)) return 0;
    const float* begin = piece_.data();
    const auto n = std::count(begin, begin + (bound.id - first_id_), bound.penalised);
    const double less = static_cast<double>(bound.penalised) - static_cast<double>(max);
    return n == 0 ? 0 : static_cast<double>(n) * std::exp(less / divisor_);
  }

  const float* row_;
  const std::uint8_t* allowed_;
  std::int32_t first_id_;
  const LogitQuery& query_;
  LogitPiece& piece_;
  LogitIndices& found_;
  double divisor_;
};

/// Makes a reply of the pieces of a row and of the parts that the workers had.
class LogitQueries::RowAnswer {
 public:
  RowAnswer(const LogitQuery& query, LogitReply& reply) : query_(query), reply_(reply) {
    reply.first_bad_id = -1;
    reply.raw = reply.tempered = {-kInfinity, 0};
    reply.before = {};
    reply.candidates.clear();
    reply.top.clear();
    reply.target.reset();
  }

  /// False if a logit is not finite.
  bool join(std::span<const PieceSums> pieces) {
    float raw_max = kAbsentLogit, penalised_max = kAbsentLogit;
    for (const PieceSums& piece : pieces) {
      if (piece.first_bad_id >= 0) {
        reply_.first_bad_id = piece.first_bad_id;
        return false;
      }
      raw_max = std::max(raw_max, piece.raw_max);
      penalised_max = std::max(penalised_max, piece.penalised_max);
    }
    const double divisor = divisor_of(query_);
    reply_.raw.max = raw_max;
    reply_.tempered.max = static_cast<double>(penalised_max) / divisor;
    for (const PieceSums& piece : pieces) {
      if (piece.raw_max == kAbsentLogit) continue;
      const auto less = [](float own, float all) {
        return static_cast<double>(own) - static_cast<double>(all);
      };
      if (query_.raw_sum) reply_.raw.sum += piece.raw * std::exp(less(piece.raw_max, raw_max));
      if (!query_.tempered_sum && query_.n_bounds == 0) continue;
      const double scale = std::exp(less(piece.penalised_max, penalised_max) / divisor);
      reply_.tempered.sum += piece.tempered * scale;
      for (std::size_t j = 0; j < kLogitBounds; ++j) reply_.before[j] += piece.before[j] * scale;
    }
    return true;
  }

  void take(Part& part) {
    part.candidates.move_to(reply_.candidates);
    part.top.move_to(reply_.top);
  }

  void finish(std::span<const float> row, const VocabShard& shard) {
    rank(reply_.candidates, clipped(query_.n_candidates, row.size()));
    rank(reply_.top, clipped(query_.n_top, row.size()));
    for (Candidate& c : reply_.top) c.penalised = penalised(c);  // found before the penalties
    const std::int64_t column = std::int64_t{query_.target} - shard.begin;
    if (column < 0 || column >= std::ssize(row)) return;
    const auto i = static_cast<std::size_t>(column);
    if (shard.allowed[i] != 0) reply_.target = row[i];
  }

 private:
  float penalised(const Candidate& c) const {
    const auto at =
        std::lower_bound(query_.penalties.begin(), query_.penalties.end(), c.id,
                         [](const LogitPenalty& p, std::int32_t id) { return p.id < id; });
    return at != query_.penalties.end() && at->id == c.id ? penalise(c.raw, query_, *at) : c.raw;
  }

  static void rank(std::vector<Candidate>& candidates, std::size_t n) {
    if (candidates.size() > n) {
      const auto end = candidates.begin() + static_cast<std::ptrdiff_t>(n);
      std::nth_element(candidates.begin(), end, candidates.end(), ranks_before);
      candidates.resize(n);
    }
    std::sort(candidates.begin(), candidates.end(), ranks_before);
  }

  const LogitQuery& query_;
  LogitReply& reply_;
};

void LogitQueries::run(const Tensor& logits, const VocabShard& shard,
                       std::span<const LogitQuery> queries, std::span<LogitReply> replies) {
  const std::int64_t rows = std::ssize(queries), width = logits.cols();
  check(logits.rows() == rows && replies.size() == queries.size(),
        "query_logits: one query and one reply a row");
  check(std::ssize(shard.allowed) == width, "query_logits: one flag a column");
  for (const LogitQuery& query : queries) check_query(query);
  const std::int64_t pieces = (width + kPieceColumns - 1) / kPieceColumns;
  sums_.resize(std::max(sums_.size(), static_cast<std::size_t>(rows * pieces)));
  parts_.resize(std::max(parts_.size(), static_cast<std::size_t>(rows + threads_.size())));
  for (Part& part : parts_) part.row = -1;
  const auto work = [&](std::int64_t begin, std::int64_t end, int worker) {
    Scratch scratch;
    for (std::int64_t unit = begin; unit < end; ++unit) {
      const std::int64_t row = unit / pieces, first = unit % pieces * kPieceColumns;
      const LogitQuery& query = queries[static_cast<std::size_t>(row)];
      Part& part = parts_[static_cast<std::size_t>(row + worker)];
      if (part.row != row) {
        part.row = row;
        part.candidates.reset(clipped(query.n_candidates, static_cast<std::size_t>(width)));
        part.top.reset(clipped(query.n_top, static_cast<std::size_t>(width)));
      }
      const auto n = static_cast<std::size_t>(std::min(kPieceColumns, width - first));
      PieceWork(logits.row(row) + first, shard.allowed.data() + first,
                shard.begin + static_cast<std::int32_t>(first), query, scratch)
          .run(n, part, sums_[static_cast<std::size_t>(unit)]);
    }
  };
  threads_.parallel_for(rows * pieces, kGrainPieces, work);
  for (std::int64_t row = 0; row < rows; ++row) {
    const auto i = static_cast<std::size_t>(row);
    RowAnswer answer(queries[i], replies[i]);
    const std::size_t n_pieces = static_cast<std::size_t>(pieces);
    if (!answer.join(std::span(sums_).subspan(i * n_pieces, n_pieces))) continue;
    const auto n_workers = static_cast<std::size_t>(threads_.size());
    for (Part& part : std::span(parts_).subspan(i, n_workers)) {
      if (part.row == row) answer.take(part);
    }
    answer.finish({logits.row(row), static_cast<std::size_t>(width)}, shard);
  }
}

void query_logits_cpu(const Tensor& logits, const VocabShard& shard,
                      std::span<const LogitQuery> queries, std::span<LogitReply> replies) {
  ThreadPool alone(1);
  LogitQueries(alone).run(logits, shard, queries, replies);
}

}  // namespace shardlm
