#include "tests/unit/backend/amx_emulation.h"

#include <bit>
#include <cmath>
#include <cstring>

#include "base/error.h"

namespace shardlm {
namespace {

float flushed(float x) { return std::fpclassify(x) == FP_SUBNORMAL ? std::copysign(0.0F, x) : x; }

/// With denormals as zeros, coming in and going out, to nearest even.
float multiply_add(float a, float b, float c) {
  return flushed(std::fma(flushed(a), flushed(b), flushed(c)));
}

float add(float a, float b) { return flushed(flushed(a) + flushed(b)); }

float widened(std::uint16_t bfloat) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bfloat) << 16);
}

}  // namespace

template <class T>
T EmulatedTiles::Tile::at(int row, int index) const {
  T value;
  const auto place = static_cast<std::size_t>(index) * sizeof(T);
  std::memcpy(&value, data[static_cast<std::size_t>(row)].data() + place, sizeof(T));
  return value;
}

template <class T>
void EmulatedTiles::Tile::set(int row, int index, T value) {
  const auto place = static_cast<std::size_t>(index) * sizeof(T);
  std::memcpy(data[static_cast<std::size_t>(row)].data() + place, &value, sizeof(T));
}

EmulatedTiles::Tile& EmulatedTiles::configured(int tile) {
  check(tiles_.at(static_cast<std::size_t>(tile)).rows > 0, "a tile that is configured");
  return tiles_[static_cast<std::size_t>(tile)];
}

const EmulatedTiles::Tile& EmulatedTiles::configured(int tile) const {
  check(tiles_.at(static_cast<std::size_t>(tile)).rows > 0, "a tile that is configured");
  return tiles_[static_cast<std::size_t>(tile)];
}

void EmulatedTiles::configure(const AmxConfig& config) {
  check(config.palette == 1 && config.start_row == 0, "palette 1");
  for (const std::uint8_t zero : config.reserved0) check(zero == 0, "reserved bytes are 0");
  for (const std::uint16_t zero : config.reserved1) check(zero == 0, "reserved bytes are 0");
  for (const std::uint8_t zero : config.reserved2) check(zero == 0, "reserved bytes are 0");
  for (std::size_t t = 0; t < tiles_.size(); ++t) {
    check(config.rows[t] <= 16 && config.bytes[t] <= 64, "at most 16 rows of 64 bytes");
    check((config.rows[t] == 0) == (config.bytes[t] == 0), "rows and bytes, or neither");
    tiles_[t] = Tile{.rows = config.rows[t], .bytes = config.bytes[t]};
  }
}

void EmulatedTiles::zero(int tile) { configured(tile).data = {}; }

void EmulatedTiles::load(int tile, const void* from, std::int64_t stride) {
  Tile& t = configured(tile);
  t.data = {};
  for (int r = 0; r < t.rows; ++r) {
    std::memcpy(t.data[static_cast<std::size_t>(r)].data(),
                static_cast<const std::byte*>(from) + r * stride,
                static_cast<std::size_t>(t.bytes));
  }
}

void EmulatedTiles::store(int tile, void* to, std::int64_t stride) const {
  const Tile& t = configured(tile);
  for (int r = 0; r < t.rows; ++r) {
    std::memcpy(static_cast<std::byte*>(to) + r * stride,
                t.data[static_cast<std::size_t>(r)].data(), static_cast<std::size_t>(t.bytes));
  }
}

void EmulatedTiles::check_product(int sum, int a, int b) const {
  check(sum != a && sum != b && a != b, "three different tiles");
  const Tile &s = configured(sum), &x = configured(a), &y = configured(b);
  check(s.bytes % 4 == 0 && x.bytes % 4 == 0, "whole fours");
  check(s.rows == x.rows && s.bytes == y.bytes && x.bytes / 4 == y.rows, "shapes that fit");
}

void EmulatedTiles::dot_bf16(int sum, int a, int b) {
  check_product(sum, a, b);
  Tile& s = configured(sum);
  const Tile &x = configured(a), &y = configured(b);
  for (int m = 0; m < s.rows; ++m) {
    std::array<float, 32> parts = {};  // of even and odd inputs
    for (int k = 0; k < x.bytes / 4; ++k) {
      for (int n = 0; n < s.bytes / 4; ++n) {
        for (int i = 0; i < 2; ++i) {
          float& part = parts[static_cast<std::size_t>(2 * n + i)];
          part = multiply_add(widened(x.at<std::uint16_t>(m, 2 * k + i)),
                              widened(y.at<std::uint16_t>(k, 2 * n + i)), part);
        }
      }
    }
    for (int n = 0; n < s.bytes / 4; ++n) {
      const auto even = static_cast<std::size_t>(2 * n);
      s.set(m, n, add(s.at<float>(m, n), add(parts[even], parts[even + 1])));
    }
  }
}

void EmulatedTiles::dot_int8(int sum, int a, int b) {
  check_product(sum, a, b);
  Tile& s = configured(sum);
  const Tile &x = configured(a), &y = configured(b);
  for (int m = 0; m < s.rows; ++m) {
    for (int k = 0; k < x.bytes / 4; ++k) {
      for (int n = 0; n < s.bytes / 4; ++n) {
        std::int32_t total = s.at<std::int32_t>(m, n);
        for (int i = 0; i < 4; ++i) {
          total += x.at<std::int8_t>(m, 4 * k + i) * y.at<std::int8_t>(k, 4 * n + i);
        }
        s.set(m, n, total);
      }
    }
  }
}

}  // namespace shardlm
