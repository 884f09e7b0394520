// Element types, as checkpoint files name them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace shardlm {

enum class DType : std::uint8_t {
  f64,
  f32,
  f16,
  bf16,  // those that we compute with
  i64,
  i32,
  i16,
  i8,
  u64,
  u32,
  u16,
  u8,
  boolean,
  c64,  // those that a file may hold
  f8_e5m2,
  f8_e4m3,
  f8_e8m0,
  f6_e2m3,
  f6_e3m2,
  f4,  // beside them
  q8,
  q4,  // only in memory: int8 and int4 weights in blocks of 32 that share a float16 scale
};

/// Weights of a block of DType::q8 and q4, all inputs of one output.
inline constexpr std::int64_t kQuantBlock = 32;

/// The safetensors spelling ("F32", "BF16", …).
std::string_view name(DType dtype);
/// The dtype of a safetensors spelling (case matters); none if unknown.
std::optional<DType> parse_dtype(std::string_view name);
/// Bits of one element: 64 … 4; without the scales of q8 and q4.
std::size_t bits(DType dtype);
/// Bytes of so many elements, with the scales of q8 and q4; elements in whole blocks.
std::uint64_t stored_bytes(DType dtype, std::uint64_t elements);
/// True for q8 and q4.
bool is_quantised(DType dtype);
/// True for f64, f32, f16, bf16.
bool is_float(DType dtype);
/// "F64, F32, F16, BF16": for messages.
std::string_view float_dtype_names();

/// Converts elements of a float dtype to float32 (rounding to nearest even from f64).
/// `from` needs no alignment and holds exactly to.size() elements; other dtypes are an Error.
void to_float32(DType dtype, std::span<const std::byte> from, std::span<float> to);

/// The inverse for f32, f16 and bf16, rounding to nearest even; a value beyond f16's range becomes
/// infinity, NaN stays NaN. `to` needs no alignment and holds exactly from.size() elements.
void from_float32(DType dtype, std::span<const float> from, std::span<std::byte> to);

}  // namespace shardlm
