// Sums of other ranks' numbers, and their shorter forms in messages. Messages ("wire") stand in
// memory of any alignment.
#pragma once

#include <cstddef>
#include <cstdint>

namespace shardlm {

/// to[i] += from[i]
void add_floats(const std::byte* from, std::size_t n, float* to);
/// The same, modulo 2^64.
void add_int64(const std::byte* from, std::size_t n, std::int64_t* to);

/// Two bytes an element, rounded as base/dtype.h's from_float32 does. "add": to[i] += what the
/// message is worth, which is one rounding to float32 after decoding: the bits of
/// add_floats(decoded).
void encode_bf16(const float* from, std::size_t n, std::byte* wire);
void decode_bf16(const std::byte* wire, std::size_t n, float* to);
void add_bf16(const std::byte* wire, std::size_t n, float* to);
void encode_f16(const float* from, std::size_t n, std::byte* wire);
void decode_f16(const std::byte* wire, std::size_t n, float* to);
void add_f16(const std::byte* wire, std::size_t n, float* to);

/// Elements of a block of int8: the float32 scale = max|x| / 127, then as many bytes as there are
/// elements: x / scale rounded to nearest, so |error| <= scale / 2 (and a few roundings of the
/// float32). A block below 2^-100 throughout is all zeros. A block with an infinity or a NaN is all
/// NaN: no finite scale holds it, and it must be seen.
inline constexpr std::size_t kInt8Block = 32;
/// Of n elements, the last block of which may be short.
constexpr std::size_t int8_bytes(std::size_t n) {
  return n + (n + kInt8Block - 1) / kInt8Block * sizeof(float);
}
void encode_int8(const float* from, std::size_t n, std::byte* wire);
void decode_int8(const std::byte* wire, std::size_t n, float* to);
void add_int8(const std::byte* wire, std::size_t n, float* to);

}  // namespace shardlm
