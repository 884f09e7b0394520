// Random numbers that depend on nothing but what they are asked for: no state, so a draw is the
// same whatever its neighbours, the batch, the number of ranks or the threads.
#pragma once

#include <array>
#include <cstdint>

namespace shardlm {

/// Philox4x32-10: 128 random bits of a 128-bit counter and a 64-bit key. Salmon, Moraes, Dror and
/// Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
std::array<std::uint32_t, 4> philox4x32_10(std::array<std::uint32_t, 4> counter,
                                           std::array<std::uint32_t, 2> key);

inline constexpr std::uint32_t kPhiloxMultiplier0 = 0xD2511F53U, kPhiloxMultiplier1 = 0xCD9E8D57U;
inline constexpr std::uint32_t kPhiloxWeyl0 = 0x9E3779B9U, kPhiloxWeyl1 = 0xBB67AE85U;
inline constexpr int kPhiloxRounds = 10;

/// One draw from a vocabulary: the noise of every id follows from these and the id alone.
struct NoiseKey {
  std::uint64_t seed = 0;      ///< Philox key
  std::uint64_t sequence = 0;  ///< counter words 2 and 3
  std::uint32_t position = 0;  ///< counter word 1; word 0 is id / 2
};

/// Uniform in (0, 1), never 0 or 1: (2m + 1) / 2^53, m the upper 52 bits of words 0 and 1 (even
/// ids) or 2 and 3 (odd ids) of the block, the first word being the lower half.
double uniform(const NoiseKey& key, std::int32_t id);

/// Standard Gumbel noise of a uniform u: -log(-log(u)). The id with the best
/// logit / temperature + noise is an exact draw from the softmax.
double gumbel(double u);

}  // namespace shardlm
