#include "base/dtype.h"

#include <array>
#include <bit>
#include <cstring>

#include "base/error.h"

namespace shardlm {
namespace {

struct Row {
  DType dtype;
  std::string_view name;
  std::size_t bits;
};

constexpr std::array kTable = {
    Row{DType::f64, "F64", 64},        Row{DType::f32, "F32", 32},
    Row{DType::f16, "F16", 16},        Row{DType::bf16, "BF16", 16},
    Row{DType::i64, "I64", 64},        Row{DType::i32, "I32", 32},
    Row{DType::i16, "I16", 16},        Row{DType::i8, "I8", 8},
    Row{DType::u64, "U64", 64},        Row{DType::u32, "U32", 32},
    Row{DType::u16, "U16", 16},        Row{DType::u8, "U8", 8},
    Row{DType::boolean, "BOOL", 8},    Row{DType::c64, "C64", 64},
    Row{DType::f8_e5m2, "F8_E5M2", 8}, Row{DType::f8_e4m3, "F8_E4M3", 8},
    Row{DType::f8_e8m0, "F8_E8M0", 8}, Row{DType::f6_e2m3, "F6_E2M3", 6},
    Row{DType::f6_e3m2, "F6_E3M2", 6}, Row{DType::f4, "F4", 4},
    Row{DType::q8, "Q8", 8},           Row{DType::q4, "Q4", 4},
};

const Row& row(DType dtype) { return kTable.at(static_cast<std::size_t>(dtype)); }

template <typename T>
T load(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

// IEEE 754 binary16 to binary32; subnormals are scaled by an exact multiplication.
float half_to_float(std::uint16_t half) {
  const std::uint32_t sign = (half & 0x8000u) << 16;
  const std::uint32_t magnitude = half & 0x7fffu;
  if (magnitude >= 0x7c00u)
    return std::bit_cast<float>(sign | 0x7f800000u | (magnitude & 0x3ffu) << 13);
  const float scaled = std::bit_cast<float>(magnitude << 13) * 0x1p112f;  // rebias 15 -> 127
  return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(scaled));
}

// Binary32 to binary16, to nearest even: an addition of the right magnitude lets the processor's
// own rounding cut the fraction (subnormals included).
std::uint16_t float_to_half(float x) {
  const std::uint32_t word = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t sign = word >> 16 & 0x8000u;
  const std::uint32_t magnitude = word & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return static_cast<std::uint16_t>(sign | 0x7e00u);   // NaN
  if (magnitude >= 0x477ff000u) return static_cast<std::uint16_t>(sign | 0x7c00u);  // >= 65520
  if (magnitude < 0x38800000u) {  // below 2^-14: units of 2^-24
    const float shifted = std::bit_cast<float>(magnitude) + 0.5F;
    return static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(shifted) - 0x3f000000u));
  }
  const std::uint32_t rounded = magnitude + 0xfffu + (magnitude >> 13 & 1u);
  return static_cast<std::uint16_t>(sign | ((rounded - 0x38000000u) >> 13));
}

std::uint16_t float_to_bfloat(float x) {
  const std::uint32_t word = std::bit_cast<std::uint32_t>(x);
  if ((word & 0x7fffffffu) > 0x7f800000u) return static_cast<std::uint16_t>(word >> 16 | 0x40u);
  return static_cast<std::uint16_t>((word + 0x7fffu + (word >> 16 & 1u)) >> 16);
}

template <typename Convert>
void narrow_each(std::span<const float> from, std::span<std::byte> to, Convert convert) {
  for (std::size_t i = 0; i < from.size(); ++i) {
    const std::uint16_t narrow = convert(from[i]);
    std::memcpy(to.data() + i * sizeof narrow, &narrow, sizeof narrow);
  }
}

template <typename T, typename Convert>
void convert_each(std::span<const std::byte> from, std::span<float> to, Convert convert) {
  check(from.size() == to.size() * sizeof(T), "to_float32: sizes differ");
  for (std::size_t i = 0; i < to.size(); ++i) to[i] = convert(load<T>(from.data() + i * sizeof(T)));
}

}  // namespace

std::string_view name(DType dtype) { return row(dtype).name; }

std::optional<DType> parse_dtype(std::string_view text) {
  for (const Row& r : kTable) {
    if (r.name == text && !is_quantised(r.dtype)) return r.dtype;
  }
  return std::nullopt;
}

std::size_t bits(DType dtype) { return row(dtype).bits; }

std::uint64_t stored_bytes(DType dtype, std::uint64_t elements) {
  const std::uint64_t values = elements * bits(dtype) / 8;
  return is_quantised(dtype) ? values + elements / kQuantBlock * sizeof(std::uint16_t) : values;
}

bool is_quantised(DType dtype) { return dtype == DType::q8 || dtype == DType::q4; }

bool is_float(DType dtype) { return dtype <= DType::bf16; }

std::string_view float_dtype_names() { return "F64, F32, F16, BF16"; }

void to_float32(DType dtype, std::span<const std::byte> from, std::span<float> to) {
  switch (dtype) {
    case DType::f32:
      check(from.size() == to.size_bytes(), "to_float32: sizes differ");
      if (!to.empty()) std::memcpy(to.data(), from.data(), from.size());
      return;
    case DType::f64:
      return convert_each<double>(from, to, [](double x) { return static_cast<float>(x); });
    case DType::f16:
      return convert_each<std::uint16_t>(from, to, half_to_float);
    case DType::bf16:
      return convert_each<std::uint16_t>(from, to, [](std::uint16_t x) {
        return std::bit_cast<float>(static_cast<std::uint32_t>(x) << 16);
      });
    default:
      throw Error(ExitCode::model_files, "cannot compute with dtype " + std::string(name(dtype)) +
                                             "; supported: " + std::string(float_dtype_names()));
  }
}

void from_float32(DType dtype, std::span<const float> from, std::span<std::byte> to) {
  check(to.size() == from.size() * bits(dtype) / 8, "from_float32: sizes differ");
  switch (dtype) {
    case DType::f32:
      if (!from.empty()) std::memcpy(to.data(), from.data(), to.size());
      return;
    case DType::f16:
      return narrow_each(from, to, float_to_half);
    case DType::bf16:
      return narrow_each(from, to, float_to_bfloat);
    default:
      fail(ExitCode::bug, {.what = "from_float32", .found = std::string(name(dtype))});
  }
}

}  // namespace shardlm
