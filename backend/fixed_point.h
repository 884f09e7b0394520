// Sums that do not depend on their order: floats as 64-bit integers, which add without rounding.
//
// A row-parallel product is cut into blocks of at most 64 inputs that lie wholly on one rank at
// every number of ranks. A block's sum is one float32 chain from 0; it becomes a multiple of 2^-32;
// blocks and ranks are then added as integers, in any order and grouping, to the same bits.
//
// Why 2^32, 2^19 and 4096: below 2^19 a block's sum times 2^32 is below 2^51, which one addition in
// float64 rounds to the nearest integer on every instruction set; 4096 such integers stay below
// 2^63. A block's sum of a model is far below 2^19 (the largest outliers of known models' residual
// streams are some thousands), and 4096 blocks of 64 are 262144 inputs. The step of 2^-32 loses
// less than float32 itself wherever a sum is above 2^-9, and 1.2e-10 a block below.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace shardlm {

inline constexpr std::int64_t kFixedBlock = 64;     ///< inputs of a block at most
inline constexpr std::int64_t kFixedBlocks = 4096;  ///< blocks of a sum at most, over all ranks
inline constexpr float kFixedLimit = 0x1p19F;       ///< of a block's sum: smaller magnitudes only
inline constexpr double kFixedOne = 0x1p32;         ///< what 1 becomes
/// Added to x (|x| < 2^51): the float64 sum's last bit is worth 1.
inline constexpr double kFixedRounder = 0x1.8p52;

/// False for NaN too.
inline bool fits_fixed(float x) { return std::abs(x) < kFixedLimit; }

/// To the nearest, of two equally near the even one; x fits.
inline std::int64_t to_fixed(float x) {
  const double rounded = static_cast<double>(x) * kFixedOne + kFixedRounder;
  return std::bit_cast<std::int64_t>(rounded) - std::bit_cast<std::int64_t>(kFixedRounder);
}

/// To the nearest; through float64, which holds every sum below 2^21 as it is.
inline float from_fixed(std::int64_t x) {
  return static_cast<float>(static_cast<double>(x) * (1 / kFixedOne));
}

/// A block's sum that does not fit.
struct FixedMisfit {
  std::int64_t row = 0, output = 0;
  float sum = 0;
};

}  // namespace shardlm
