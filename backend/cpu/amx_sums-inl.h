// What the kernels of amx_matmul.h share: they work on any Tiles with the functions of AmxTiles.
// The file that includes them says in SHARDLM_AMX what functions with tiles are marked with
// (nothing, for tiles that are emulated).
#pragma once

#include <algorithm>

#include "backend/cpu/amx_matmul.h"
#include "backend/cpu/amx_shapes.h"
#include "backend/cpu/amx_vectors.h"

namespace shardlm::amx {

// Tiles 0 … 3 are sums, of row tile r and column tile c number 2 r + c; 4 and 5 activations, 6 and
// 7 weights: four products for four loads.
inline constexpr AmxShapes kBf16Shapes = {
    {{16, 64}, {16, 64}, {16, 64}, {16, 64}, {16, 64}, {16, 64}, {16, 64}, {16, 64}}};
inline constexpr AmxShapes kInt8Shapes = {
    {{16, 64}, {16, 64}, {16, 64}, {16, 64}, {16, 32}, {16, 32}, {8, 64}, {8, 64}}};
inline constexpr std::int64_t kLine = 64;                                 // bytes
inline constexpr std::int64_t kWeightStride = PanelLayout::kOutputs * 4;  // bytes
inline constexpr std::int64_t kSumsStride = kAmxColumns * 4;              // bytes
inline constexpr std::int64_t kTileSums = AmxRows::kRows * kAmxColumns;   // of two tiles abreast
inline constexpr std::int64_t kBf16TileBytes = AmxRows::kInputs / 2 * kWeightStride;

/// Memory to be brought near in even steps.
struct Ahead {
  const std::byte* at;
  std::int64_t lines;  // a step

  Ahead(const std::byte* from, std::int64_t bytes, std::int64_t steps)
      : at(from), lines(from == nullptr ? 0 : (bytes / kLine + steps - 1) / steps) {}
  void step() {
    for (std::int64_t i = 0; i < lines; ++i, at += kLine) __builtin_prefetch(at, 0, 2);
  }
};

/// Stores the sums of kRowTiles by two tiles as [kRowTiles * 16][32].
template <int kRowTiles, class Tiles>
SHARDLM_AMX inline void store_sums(Tiles& tiles, void* to) {
  auto* first = static_cast<std::byte*>(to);
  tiles.template store<0>(first, kSumsStride);
  tiles.template store<1>(first + kLine, kSumsStride);
  if constexpr (kRowTiles == 2) {
    tiles.template store<2>(first + kTileSums * 4, kSumsStride);
    tiles.template store<3>(first + kTileSums * 4 + kLine, kSumsStride);
  }
}

template <int kRowTiles, class Tiles>
SHARDLM_AMX inline void zero_sums(Tiles& tiles) {
  tiles.template zero<0>();
  tiles.template zero<1>();
  if constexpr (kRowTiles == 2) {
    tiles.template zero<2>();
    tiles.template zero<3>();
  }
}

}  // namespace shardlm::amx
