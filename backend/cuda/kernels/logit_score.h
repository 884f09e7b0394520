// Scores of candidates in kernels: noise, and scores as integers of the same order.
#pragma once

#include <cstdint>
#include <cstring>

#include "backend/cuda/gpu.h"
#include "backend/cuda/kernels/logit_job.h"
#include "base/philox.h"

namespace shardlm::cuda {

template <class To, class From>
__device__ __forceinline__ To bits_as(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  memcpy(&to, &from, sizeof to);
  return to;
}

/// Integers in the order of the numbers; equal numbers (0 and -0) give equal integers; never 0.
__device__ __forceinline__ std::uint64_t ordered_bits(double x) {
  constexpr std::uint64_t kSign = std::uint64_t{1} << 63;
  const auto bits = bits_as<std::uint64_t>(x + 0.0);
  return (bits & kSign) != 0 ? ~bits : bits | kSign;
}
__device__ __forceinline__ std::uint32_t ordered_bits(float x) {
  constexpr std::uint32_t kSign = std::uint32_t{1} << 31;
  const auto bits = bits_as<std::uint32_t>(x + 0.0F);
  return (bits & kSign) != 0 ? ~bits : bits | kSign;
}

/// The bits of shardlm::uniform() of this query's position and an id: 2m + 1 of (2m + 1) / 2^53.
__device__ __forceinline__ std::uint64_t uniform_bits(const DeviceLogitQuery& query,
                                                      std::int32_t id) {
  std::uint32_t counter[4] = {static_cast<std::uint32_t>(id) >> 1, query.position,
                              static_cast<std::uint32_t>(query.sequence),
                              static_cast<std::uint32_t>(query.sequence >> 32)};
  std::uint32_t key[2] = {static_cast<std::uint32_t>(query.seed),
                          static_cast<std::uint32_t>(query.seed >> 32)};
  for (int round = 0; round < kPhiloxRounds; ++round) {
    const std::uint64_t product0 = std::uint64_t{kPhiloxMultiplier0} * counter[0];
    const std::uint64_t product1 = std::uint64_t{kPhiloxMultiplier1} * counter[2];
    counter[0] = static_cast<std::uint32_t>(product1 >> 32) ^ counter[1] ^ key[0];
    counter[1] = static_cast<std::uint32_t>(product1);
    counter[2] = static_cast<std::uint32_t>(product0 >> 32) ^ counter[3] ^ key[1];
    counter[3] = static_cast<std::uint32_t>(product0);
    key[0] += kPhiloxWeyl0;
    key[1] += kPhiloxWeyl1;
  }
  const bool odd = (id & 1) != 0;
  const std::uint64_t bits =
      (odd ? counter[2] : counter[0]) | (std::uint64_t{odd ? counter[3] : counter[1]} << 32);
  return (bits >> 12) * 2 + 1;
}

/// Candidate::score with noise.
__device__ __forceinline__ double noisy_score(const DeviceLogitQuery& query, float penalised,
                                              std::int32_t id) {
  const double u = static_cast<double>(uniform_bits(query, id)) * 0x1p-53;
  return static_cast<double>(penalised) / query.divisor - log(-log(u));
}

}  // namespace shardlm::cuda
