#include "base/philox.h"

#include <cmath>
#include <cstddef>

namespace shardlm {

std::array<std::uint32_t, 4> philox4x32_10(std::array<std::uint32_t, 4> counter,
                                           std::array<std::uint32_t, 2> key) {
  for (int round = 0; round < kPhiloxRounds; ++round) {
    const std::uint64_t product0 = std::uint64_t{kPhiloxMultiplier0} * counter[0];
    const std::uint64_t product1 = std::uint64_t{kPhiloxMultiplier1} * counter[2];
    const auto high0 = static_cast<std::uint32_t>(product0 >> 32);
    const auto high1 = static_cast<std::uint32_t>(product1 >> 32);
    counter = {high1 ^ counter[1] ^ key[0], static_cast<std::uint32_t>(product1),
               high0 ^ counter[3] ^ key[1], static_cast<std::uint32_t>(product0)};
    key[0] += kPhiloxWeyl0;
    key[1] += kPhiloxWeyl1;
  }
  return counter;
}

double uniform(const NoiseKey& key, std::int32_t id) {
  const auto block = philox4x32_10(
      {static_cast<std::uint32_t>(id) >> 1, key.position, static_cast<std::uint32_t>(key.sequence),
       static_cast<std::uint32_t>(key.sequence >> 32)},
      {static_cast<std::uint32_t>(key.seed), static_cast<std::uint32_t>(key.seed >> 32)});
  const std::size_t word = (id & 1) != 0 ? 2 : 0;
  const std::uint64_t bits = block[word] | (std::uint64_t{block[word + 1]} << 32);
  return static_cast<double>(bits >> 12) * 0x1p-52 + 0x1p-53;
}

double gumbel(double u) { return -std::log(-std::log(u)); }

}  // namespace shardlm
