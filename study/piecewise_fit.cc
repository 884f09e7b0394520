#include "study/piecewise_fit.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "base/error.h"
#include "study/statistics.h"

namespace shardlm {
namespace {

// Times agree with themselves to about this at best: pieces that promise more win nothing.
constexpr double kBestError = 2e-3;

struct Line {
  double alpha = 0, beta = 0;
  double squares = 0;  ///< of relative errors, summed
};

double squares_of(std::span<const TimedMessage> times, double alpha, double beta) {
  double sum = 0;
  for (const TimedMessage& t : times) {
    const double error = (alpha + beta * static_cast<double>(t.bytes)) / t.seconds - 1;
    sum += error * error;
  }
  return sum;
}

// Minimises sum of ((alpha + beta n) / T - 1)^2 with neither below 0.
Line fit_line(std::span<const TimedMessage> times) {
  double xx = 0, xy = 0, yy = 0, x1 = 0, y1 = 0;
  for (const TimedMessage& t : times) {
    const double x = 1 / t.seconds, y = static_cast<double>(t.bytes) / t.seconds;
    xx += x * x, xy += x * y, yy += y * y, x1 += x, y1 += y;
  }
  const double determinant = xx * yy - xy * xy;
  Line line;
  if (determinant > 1e-12 * xx * yy) {
    line.alpha = (x1 * yy - y1 * xy) / determinant;
    line.beta = (y1 * xx - x1 * xy) / determinant;
  } else {
    line.alpha = x1 / xx;
  }
  if (line.beta < 0) line = {.alpha = x1 / xx, .beta = 0, .squares = 0};
  if (line.alpha < 0) line = {.alpha = 0, .beta = y1 / yy, .squares = 0};
  line.squares = squares_of(times, line.alpha, line.beta);
  return line;
}

/// The best pieces of each number, by trying all borders.
class Search {
 public:
  explicit Search(std::span<const TimedMessage> times) : times_(times) {}

  // Where the pieces of [begin, all) start, of the least sum of squares.
  std::optional<std::vector<std::size_t>> starts(std::size_t begin, int pieces) const {
    if (pieces == 1) return std::vector{begin};
    std::optional<std::vector<std::size_t>> best;
    double least = std::numeric_limits<double>::infinity();
    for (std::size_t next = begin + kLeastPoints; next + kLeastPoints <= times_.size(); ++next) {
      const auto rest = starts(next, pieces - 1);
      if (!rest) continue;
      std::vector<std::size_t> all = {begin};
      all.insert(all.end(), rest->begin(), rest->end());
      if (const double squares = squares_of_all(all); squares < least) {
        least = squares;
        best = std::move(all);
      }
    }
    return best;
  }

  std::span<const TimedMessage> piece(const std::vector<std::size_t>& starts, std::size_t i) const {
    const std::size_t end = i + 1 < starts.size() ? starts[i + 1] : times_.size();
    return times_.subspan(starts[i], end - starts[i]);
  }

  double squares_of_all(const std::vector<std::size_t>& starts) const {
    double sum = 0;
    for (std::size_t i = 0; i < starts.size(); ++i) sum += fit_line(piece(starts, i)).squares;
    return sum;
  }

 private:
  std::span<const TimedMessage> times_;
};

double criterion(double squares, std::size_t n, int pieces) {
  const auto count = static_cast<double>(n);
  const double parameters = 2.0 * pieces + 2.0 * (pieces - 1);
  return count * std::log(std::max(squares / count, kBestError * kBestError)) +
         parameters * std::log(count);
}

double median_error(std::span<const TimedMessage> times, const std::vector<LinkSegment>& segments) {
  LinkClass link;
  link.segments = segments;
  std::vector<double> errors;
  for (const TimedMessage& t : times)
    errors.push_back(std::abs(link.message_s(static_cast<double>(t.bytes)) / t.seconds - 1));
  return median(errors);
}

}  // namespace

PiecewiseFit fit_piecewise(std::span<const TimedMessage> times, int most) {
  PiecewiseFit fit;
  if (times.empty()) return fit;
  for (const TimedMessage& t : times) check(t.seconds > 0, "a message's time is positive");
  const Search search(times);
  std::vector<std::size_t> best = {0};
  fit.bic = criterion(search.squares_of_all(best), times.size(), 1);
  for (int pieces = 2; pieces <= most; ++pieces) {
    const auto starts = search.starts(0, pieces);
    if (!starts) break;
    const double bic = criterion(search.squares_of_all(*starts), times.size(), pieces);
    if (bic >= fit.bic) continue;
    fit.bic = bic;
    best = *starts;
  }
  for (std::size_t i = 0; i < best.size(); ++i) {
    const std::span<const TimedMessage> piece = search.piece(best, i);
    const Line line = fit_line(piece);
    fit.segments.push_back({i == 0 ? piece.front().bytes : fit.segments.back().to_bytes,
                            piece.back().bytes, line.alpha, line.beta});
  }
  fit.error = median_error(times, fit.segments);
  return fit;
}

}  // namespace shardlm
