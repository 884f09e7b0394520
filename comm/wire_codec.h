// How the elements of a sum stand in a message: as they are, or rounded to fewer bytes.
#pragma once

#include <cstddef>
#include <cstdint>

#include "comm/algorithm.h"

namespace shardlm {

/// Elements of a sum in memory ("held"): float32, or 64-bit fixed point (comm/fixed_point.h).
enum class SumType : std::uint8_t { f32, fixed64 };
constexpr std::size_t held_bytes(SumType type) { return type == SumType::f32 ? 4 : 8; }

/// Translates between held elements and those of a message. Stateless; any alignment of `wire`.
class WireCodec {
 public:
  virtual ~WireCodec() = default;
  virtual SumType held() const = 0;
  /// Elements that share a scale: a message begins at a multiple of these.
  virtual std::size_t block() const { return 1; }
  /// Bytes of a message of n elements (the last block may be short).
  virtual std::size_t wire_bytes(std::size_t n) const = 0;
  /// True if a message is the held elements as they are: it may be sent and received in place.
  virtual bool plain() const = 0;

  virtual void encode(const std::byte* held, std::size_t n, std::byte* wire) const = 0;
  virtual void decode(const std::byte* wire, std::size_t n, std::byte* held) const = 0;
  /// held += what the message is worth.
  virtual void add(const std::byte* wire, std::size_t n, std::byte* held) const = 0;
};

/// With fixed64 the wire is f32 by name and 8 bytes an element: an exact sum is not rounded (other
/// formats: Error(ExitCode::usage)).
const WireCodec& wire_codec(SumType held, WireFormat wire);

}  // namespace shardlm
