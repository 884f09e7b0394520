// The loops over a vocabulary, on pieces of a row that stay in the first-level cache. The
// instruction set is chosen at run time.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

#include "backend/backend.h"
#include "base/philox.h"

namespace shardlm {

/// Most columns of a piece.
inline constexpr std::size_t kLogitPiece = 2048;
/// The loops work on whole groups of columns; what stands behind the last column is absent.
inline constexpr std::size_t kLogitGroup = 16;
/// Stands for "no such id": never allowed, never a candidate, weight 0.
inline constexpr float kAbsentLogit = -std::numeric_limits<float>::infinity();

/// Room for a piece with absent columns on both sides.
class LogitPiece {
 public:
  LogitPiece() { std::fill_n(floats_.begin(), kLogitGroup, kAbsentLogit); }
  LogitPiece(const LogitPiece&) = delete;
  LogitPiece& operator=(const LogitPiece&) = delete;

  float* data() { return floats_.data() + kLogitGroup; }
  const float* data() const { return floats_.data() + kLogitGroup; }
  float& operator[](std::size_t i) { return floats_[kLogitGroup + i]; }
  float operator[](std::size_t i) const { return floats_[kLogitGroup + i]; }
  std::size_t size = 0;  ///< columns
  std::size_t padded() const { return (size + kLogitGroup - 1) / kLogitGroup * kLogitGroup; }

 private:
  // Written group by group up to size + kLogitGroup: a value-initialised array would cost as much
  // as the rest of a greedy query.
  alignas(64) std::array<float, kLogitPiece + 2 * kLogitGroup> floats_;
};

/// Columns of a piece that pass a test, ascending; room for the last vector that is written.
using LogitIndices = std::array<std::uint32_t, kLogitPiece + 2 * kLogitGroup>;

struct LogitMax {
  float max = kAbsentLogit;  ///< of the allowed columns
  bool finite = true;        ///< all allowed columns
};

/// Copies `n` columns (at most a piece), those that are not allowed as absent.
LogitMax load_logits(const float* row, const std::uint8_t* allowed, std::size_t n,
                     LogitPiece& piece);

/// The largest logit of the piece.
float max_logit(const LogitPiece& piece);

/// Sum of exp((x - max) / temperature): terms within 3 ulp of double precision, in eight chains of
/// additions whatever the instruction set. `inverse` is 1 / temperature. No x is above `max`.
double sum_exp(const LogitPiece& piece, double max, double inverse);

/// The same over the columns with x > limits[j], for each j.
using BoundSums = std::array<double, kLogitBounds>;
BoundSums sum_exp_above(const LogitPiece& piece, double max, double inverse,
                        const std::array<float, kLogitBounds>& limits);

/// The columns in [begin, end), both multiples of a group, with x > limit; how many.
std::size_t find_above(const LogitPiece& piece, std::size_t begin, std::size_t end, float limit,
                       LogitIndices& found);

/// A race of the ids of a piece: id wins the draw whose E / exp((x - max) / temperature) is least,
/// E = -log(u), u its uniform number.
struct LogitRace {
  NoiseKey key;
  std::int32_t first_id = 0;  ///< of the piece's column 0
  float max = 0;              ///< no x is above it
  double temperature = 1;
  double limit = 0;  ///< ids whose quotient is above it have lost
};

/// The runners are counted from the last even id at or before first_id (noise comes in pairs of
/// ids): runner r is column r - first_id % 2. Finds the runners in [begin, end), even numbers, that
/// may not have lost: every one with a quotient up to the limit, few others (absent ids among
/// them). From 24 bits of 1 - u <= E and float32 exponentials.
std::size_t find_runners(const LogitPiece& piece, std::size_t begin, std::size_t end,
                         const LogitRace& race, LogitIndices& found);

}  // namespace shardlm
