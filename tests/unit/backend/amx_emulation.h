// The tiles of AMX in plain C++, as Intel's definition of the instructions says. For tests alone.
#pragma once

#include <array>
#include <cstdint>

#include "backend/cpu/amx_shapes.h"

namespace shardlm {

/// Has AmxTiles' functions, and the same with the tile's number as an argument. What would be an
/// illegal instruction throws.
class EmulatedTiles {
 public:
  EmulatedTiles() = default;
  explicit EmulatedTiles(const AmxShapes& shapes) { configure(AmxConfig(shapes)); }

  void configure(const AmxConfig& config);
  void release() { *this = EmulatedTiles(); }
  void zero(int tile);
  void load(int tile, const void* from, std::int64_t stride);
  void store(int tile, void* to, std::int64_t stride) const;
  void dot_bf16(int sum, int a, int b);  ///< TDPBF16PS
  void dot_int8(int sum, int a, int b);  ///< TDPBSSD

  template <int kTile>
  void zero() {
    zero(kTile);
  }
  template <int kTile>
  void load(const void* from, std::int64_t stride) {
    load(kTile, from, stride);
  }
  template <int kTile>
  void store(void* to, std::int64_t stride) const {
    store(kTile, to, stride);
  }
  template <int kSum, int kA, int kB>
  void dot_bf16() {
    dot_bf16(kSum, kA, kB);
  }
  template <int kSum, int kA, int kB>
  void dot_int8() {
    dot_int8(kSum, kA, kB);
  }

 private:
  template <class T>
  using Rows = std::array<std::array<T, 64 / sizeof(T)>, 16>;
  struct Tile {
    int rows = 0, bytes = 0;  // 0: not configured
    alignas(64) Rows<std::uint8_t> data = {};

    template <class T>
    Rows<T> as() const;
    template <class T>
    void set(const Rows<T>& values);
  };
  Tile& configured(int tile);
  const Tile& configured(int tile) const;
  void check_product(int sum, int a, int b) const;

  std::array<Tile, 8> tiles_ = {};
};

}  // namespace shardlm
