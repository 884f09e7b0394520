#include "tests/unit/backend/amx_emulation.h"

#include <bit>
#include <cmath>
#include <cstring>

#include "base/error.h"

namespace shardlm {
namespace {

float flushed(float x) { return std::abs(x) < 0x1p-126F ? std::copysign(0.0F, x) : x; }

float add(float a, float b) { return flushed(flushed(a) + flushed(b)); }

float widened(std::uint16_t bfloat) {
  return flushed(std::bit_cast<float>(static_cast<std::uint32_t>(bfloat) << 16));
}

}  // namespace

template <class T>
EmulatedTiles::Rows<T> EmulatedTiles::Tile::as() const {
  Rows<T> values;
  static_assert(sizeof values == sizeof data);
  std::memcpy(values.data(), data.data(), sizeof data);
  return values;
}

template <class T>
void EmulatedTiles::Tile::set(const Rows<T>& values) {
  std::memcpy(data.data(), values.data(), sizeof data);
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
  auto sums = s.as<float>();
  const auto x = configured(a).as<std::uint16_t>(), y_bits = configured(b).as<std::uint16_t>();
  const auto pairs = static_cast<std::size_t>(configured(a).bytes / 4);
  const auto columns = static_cast<std::size_t>(s.bytes / 4);
  float y[16][32];
  for (std::size_t k = 0; k < pairs; ++k) {
    for (std::size_t n = 0; n < 2 * columns; ++n) y[k][n] = widened(y_bits[k][n]);
  }
  for (std::size_t m = 0; m < static_cast<std::size_t>(s.rows); ++m) {
    float parts[32] = {};  // of even and odd inputs
    for (std::size_t k = 0; k < pairs; ++k) {
      const float inputs[2] = {widened(x[m][2 * k]), widened(x[m][2 * k + 1])};
      for (std::size_t n = 0; n < 2 * columns; ++n) {
        parts[n] = flushed(std::fma(inputs[n % 2], y[k][n], parts[n]));
      }
    }
    for (std::size_t n = 0; n < columns; ++n) {
      sums[m][n] = add(sums[m][n], add(parts[2 * n], parts[2 * n + 1]));
    }
  }
  s.set(sums);
}

void EmulatedTiles::dot_int8(int sum, int a, int b) {
  check_product(sum, a, b);
  Tile& s = configured(sum);
  auto sums = s.as<std::int32_t>();
  const auto x = configured(a).as<std::int8_t>(), y = configured(b).as<std::int8_t>();
  for (std::size_t m = 0; m < static_cast<std::size_t>(s.rows); ++m) {
    for (std::size_t k = 0; k < static_cast<std::size_t>(configured(a).bytes / 4); ++k) {
      const std::int8_t* four = &x[m][4 * k];
      const std::int8_t* row = y[k].data();
      std::int32_t* total = sums[m].data();
      for (std::size_t n = 0; n < static_cast<std::size_t>(s.bytes / 4); ++n, row += 4) {
        total[n] += four[0] * row[0] + four[1] * row[1] + four[2] * row[2] + four[3] * row[3];
      }
    }
  }
  s.set(sums);
}

}  // namespace shardlm
