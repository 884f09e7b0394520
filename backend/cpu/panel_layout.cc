#include "backend/cpu/panel_layout.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <span>
#include <type_traits>

#include "base/error.h"

namespace shardlm {
namespace {

constexpr std::int64_t kOutputs = PanelLayout::kOutputs;
constexpr std::int64_t kInputs = PanelLayout::kInputs;
static_assert(kInputs == kQuantBlock);

std::uint16_t half_of(float value) {
  std::uint16_t half = 0;
  from_float32(DType::f16, {&value, 1}, std::as_writable_bytes(std::span(&half, 1)));
  return half;
}

float float_of(std::uint16_t half) {
  float value = 0;
  to_float32(DType::f16, std::as_bytes(std::span(&half, 1)), {&value, 1});
  return value;
}

// The value of the largest magnitude; of equal ones the first.
float extreme(const float* column) {
  float found = 0;
  for (std::int64_t k = 0; k < kInputs; ++k) {
    if (std::abs(column[k * kOutputs]) > std::abs(found)) found = column[k * kOutputs];
  }
  return found;
}

int rounded(float value, float scale, int least, int most) {
  if (scale == 0) return 0;
  return static_cast<int>(std::clamp(std::nearbyint(value / scale), static_cast<float>(least),
                                     static_cast<float>(most)));
}

void pack_pairs(const float* values, std::int64_t inputs, std::byte* to) {
  std::array<float, 2 * kOutputs> pair;
  for (std::int64_t k = 0; k < inputs; k += 2) {
    for (std::int64_t j = 0; j < kOutputs; ++j) {
      pair[static_cast<std::size_t>(2 * j)] = values[k * kOutputs + j];
      pair[static_cast<std::size_t>(2 * j + 1)] =
          k + 1 < kInputs ? values[(k + 1) * kOutputs + j] : 0.0F;
    }
    from_float32(DType::bf16, pair, {to + k * kOutputs * 2, sizeof(std::uint16_t) * pair.size()});
  }
}

void pack_q8(const float* values, std::byte* to) {
  for (std::int64_t j = 0; j < kOutputs; ++j) {
    const std::uint16_t half = half_of(std::abs(extreme(values + j)) / 127);
    const float scale = float_of(half);
    std::memcpy(to + j * 2, &half, sizeof half);
    for (std::int64_t k = 0; k < kInputs; ++k) {
      const int value = rounded(values[k * kOutputs + j], scale, -127, 127);
      to[static_cast<std::int64_t>(PanelLayout::kScaleBytes) + (k / 4 * kOutputs + j) * 4 + k % 4] =
          static_cast<std::byte>(value + 128);
    }
  }
}

// The extreme becomes -8: one more step on its side.
void pack_q4(const float* values, std::byte* to) {
  for (std::int64_t j = 0; j < kOutputs; ++j) {
    const std::uint16_t half = half_of(extreme(values + j) / -8);
    const float scale = float_of(half);
    std::memcpy(to + j * 2, &half, sizeof half);
    std::array<unsigned, kInputs> codes;
    for (std::int64_t k = 0; k < kInputs; ++k) {
      codes[static_cast<std::size_t>(k)] =
          static_cast<unsigned>(rounded(values[k * kOutputs + j], scale, -8, 7) + 8);
    }
    for (std::int64_t p = 0; p < kInputs / 8; ++p) {
      for (std::int64_t i = 0; i < 4; ++i) {
        const auto low = static_cast<std::size_t>(8 * p + i);
        to[static_cast<std::int64_t>(PanelLayout::kScaleBytes) + (p * kOutputs + j) * 4 + i] =
            static_cast<std::byte>(codes[low] | codes[low + 4] << 4);
      }
    }
  }
}

template <class T>
T load(const std::byte* from, std::int64_t index) {
  T value;
  std::memcpy(&value, from + index * static_cast<std::int64_t>(sizeof value), sizeof value);
  return value;
}

float bfloat_of(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

// Input k, output j of a tile.
template <DType dtype>
float value_at(const std::byte* tile, std::int64_t k, std::int64_t j) {
  const std::byte* values = tile + PanelLayout::kScaleBytes;
  if constexpr (dtype == DType::f32) return load<float>(tile, k * kOutputs + j);
  if constexpr (dtype == DType::f16) return float_of(load<std::uint16_t>(tile, k * kOutputs + j));
  if constexpr (dtype == DType::bf16) {
    return bfloat_of(load<std::uint16_t>(tile, (k / 2 * kOutputs + j) * 2 + k % 2));
  }
  const float scale = float_of(load<std::uint16_t>(tile, j));
  if constexpr (dtype == DType::q8) {
    return scale *
           static_cast<float>(load<std::uint8_t>(values, (k / 4 * kOutputs + j) * 4 + k % 4) - 128);
  }
  const int pair = load<std::uint8_t>(values, (k / 8 * kOutputs + j) * 4 + k % 4);
  return scale * static_cast<float>((k % 8 < 4 ? pair & 15 : pair >> 4) - 8);
}

/// Calls fn with the dtype as a constant.
template <class Fn>
void with_dtype(DType dtype, const Fn& fn) {
  switch (dtype) {
    case DType::f32:
      return fn(std::integral_constant<DType, DType::f32>());
    case DType::f16:
      return fn(std::integral_constant<DType, DType::f16>());
    case DType::bf16:
      return fn(std::integral_constant<DType, DType::bf16>());
    case DType::q8:
      return fn(std::integral_constant<DType, DType::q8>());
    case DType::q4:
      return fn(std::integral_constant<DType, DType::q4>());
    default:
      check(false, "a type of packed weights");
  }
}

}  // namespace

std::size_t PanelLayout::tile_bytes() const {
  const std::size_t values = static_cast<std::size_t>(kInputs * kOutputs) * bits(dtype) / 8;
  return is_quantised(dtype) ? kScaleBytes + values : values;
}

std::size_t PanelLayout::panel_bytes() const {
  if (is_quantised(dtype)) return static_cast<std::size_t>(tiles()) * tile_bytes();
  const std::int64_t rows = dtype == DType::bf16 ? (in + 1) / 2 * 2 : in;
  return static_cast<std::size_t>(rows * kOutputs) * bits(dtype) / 8;
}

void pack_tile(DType dtype, const float* values, std::int64_t inputs, std::byte* to) {
  const std::span<const float> all(values, static_cast<std::size_t>(inputs * kOutputs));
  switch (dtype) {
    case DType::bf16:
      return pack_pairs(values, inputs, to);
    case DType::q8:
      return pack_q8(values, to);
    case DType::q4:
      return pack_q4(values, to);
    default:
      return from_float32(dtype, all, {to, all.size() * bits(dtype) / 8});
  }
}

void unpack_tile(DType dtype, const std::byte* from, std::int64_t inputs, float* values) {
  with_dtype(dtype, [&](auto type) {
    for (std::int64_t k = 0; k < inputs; ++k) {
      for (std::int64_t j = 0; j < kOutputs; ++j) {
        values[k * kOutputs + j] = value_at<type()>(from, k, j);
      }
    }
  });
}

void unpack_output(const PanelLayout& layout, const std::byte* panel, std::int64_t output,
                   float* values) {
  const auto tile_bytes = static_cast<std::int64_t>(layout.tile_bytes());
  with_dtype(layout.dtype, [&](auto type) {
    for (std::int64_t k = 0; k < layout.in; ++k) {
      values[k] = value_at<type()>(panel + k / kInputs * tile_bytes, k % kInputs, output);
    }
  });
}

}  // namespace shardlm
