// What the tiles of AMX are configured with.
#pragma once

#include <array>
#include <cstdint>

namespace shardlm {

struct AmxShape {
  std::uint8_t rows = 0;    ///< at most 16
  std::uint16_t bytes = 0;  ///< of a row, at most 64, whole fours
};
using AmxShapes = std::array<AmxShape, 8>;

/// The operand of LDTILECFG, palette 1: eight tiles of up to 16 rows of 64 bytes.
struct alignas(64) AmxConfig {
  std::uint8_t palette = 1, start_row = 0;
  std::uint8_t reserved0[14] = {};
  std::uint16_t bytes[8] = {};
  std::uint16_t reserved1[8] = {};
  std::uint8_t rows[8] = {};
  std::uint8_t reserved2[8] = {};

  constexpr explicit AmxConfig(const AmxShapes& shapes) {
    for (std::size_t t = 0; t < shapes.size(); ++t) {
      bytes[t] = shapes[t].bytes;
      rows[t] = shapes[t].rows;
    }
  }
};
static_assert(sizeof(AmxConfig) == 64);

}  // namespace shardlm
