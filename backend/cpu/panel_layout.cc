#include "backend/cpu/panel_layout.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <span>
#include <type_traits>

#include "base/error.h"

namespace shardlm {
namespace {

constexpr std::int64_t kOutputs = PanelLayout::kOutputs;
constexpr std::int64_t kInputs = PanelLayout::kInputs;
static_assert(kInputs == kQuantBlock);

float float_of(std::uint16_t half) {
  float value = 0;
  to_float32(DType::f16, std::as_bytes(std::span(&half, 1)), {&value, 1});
  return value;
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

/// A column of a tile: `inputs` values of output j, `step` floats apart.
template <DType dtype>
void unpack_column(const std::byte* tile, std::int64_t inputs, std::int64_t j, float* values,
                   std::int64_t step) {
  const std::byte* codes = tile + PanelLayout::kScaleBytes;
  const float scale = is_quantised(dtype) ? float_of(load<std::uint16_t>(tile, j)) : 1.0F;
  for (std::int64_t k = 0; k < inputs; ++k) {
    float& value = values[k * step];
    if constexpr (dtype == DType::f32) {
      value = load<float>(tile, k * kOutputs + j);
    } else if constexpr (dtype == DType::f16) {
      value = float_of(load<std::uint16_t>(tile, k * kOutputs + j));
    } else if constexpr (dtype == DType::bf16) {
      value = bfloat_of(load<std::uint16_t>(tile, (k / 2 * kOutputs + j) * 2 + k % 2));
    } else if constexpr (dtype == DType::q8) {
      const int code = load<std::uint8_t>(codes, (k / 4 * kOutputs + j) * 4 + k % 4);
      value = scale * static_cast<float>(code - 128);
    } else {
      const int pair = load<std::uint8_t>(codes, (k / 8 * kOutputs + j) * 4 + k % 4);
      value = scale * static_cast<float>((k % 8 < 4 ? pair & 15 : pair >> 4) - 8);
    }
  }
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

void unpack_tile(DType dtype, const std::byte* from, std::int64_t inputs, float* values) {
  with_dtype(dtype, [&](auto type) {
    for (std::int64_t j = 0; j < kOutputs; ++j) {
      unpack_column<type()>(from, inputs, j, values + j, kOutputs);
    }
  });
}

void unpack_output(const PanelLayout& layout, const std::byte* panel, std::int64_t output,
                   float* values) {
  const auto tile_bytes = static_cast<std::int64_t>(layout.tile_bytes());
  with_dtype(layout.dtype, [&](auto type) {
    for (std::int64_t t = 0; t < layout.tiles(); ++t) {
      const std::int64_t first = t * kInputs;
      unpack_column<type()>(panel + t * tile_bytes, std::min(kInputs, layout.in - first), output,
                            values + first, 1);
    }
  });
}

}  // namespace shardlm
