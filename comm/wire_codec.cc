#include "comm/wire_codec.h"

#include <cstring>
#include <string>

#include "backend/cpu/sum_kernels.h"
#include "base/error.h"

namespace shardlm {
namespace {

const float* floats(const std::byte* held) { return reinterpret_cast<const float*>(held); }
float* floats(std::byte* held) { return reinterpret_cast<float*>(held); }

// The message is what is held.
class PlainCodec : public WireCodec {
 public:
  std::size_t wire_bytes(std::size_t n) const final { return n * held_bytes(held()); }
  bool plain() const final { return true; }
  void encode(const std::byte* from, std::size_t n, std::byte* wire) const final {
    if (n > 0) std::memcpy(wire, from, wire_bytes(n));
  }
  void decode(const std::byte* wire, std::size_t n, std::byte* to) const final {
    if (n > 0) std::memcpy(to, wire, wire_bytes(n));
  }
};

class FloatCodec final : public PlainCodec {
  SumType held() const override { return SumType::f32; }
  void add(const std::byte* wire, std::size_t n, std::byte* to) const override {
    add_floats(wire, n, floats(to));
  }
};

class FixedCodec final : public PlainCodec {
  SumType held() const override { return SumType::fixed64; }
  void add(const std::byte* wire, std::size_t n, std::byte* to) const override {
    add_int64(wire, n, reinterpret_cast<std::int64_t*>(to));
  }
};

// What three kernels do.
struct Kernels {
  void (*encode)(const float*, std::size_t, std::byte*);
  void (*decode)(const std::byte*, std::size_t, float*);
  void (*add)(const std::byte*, std::size_t, float*);
};

class RoundingCodec : public WireCodec {
 public:
  explicit RoundingCodec(const Kernels& kernels) : kernels_(kernels) {}
  SumType held() const final { return SumType::f32; }
  bool plain() const final { return false; }
  void encode(const std::byte* from, std::size_t n, std::byte* wire) const final {
    kernels_.encode(floats(from), n, wire);
  }
  void decode(const std::byte* wire, std::size_t n, std::byte* to) const final {
    kernels_.decode(wire, n, floats(to));
  }
  void add(const std::byte* wire, std::size_t n, std::byte* to) const final {
    kernels_.add(wire, n, floats(to));
  }

 private:
  Kernels kernels_;
};

class NarrowCodec final : public RoundingCodec {
 public:
  using RoundingCodec::RoundingCodec;
  std::size_t wire_bytes(std::size_t n) const override { return n * sizeof(std::uint16_t); }
};

class Int8Codec final : public RoundingCodec {
 public:
  Int8Codec() : RoundingCodec({encode_int8, decode_int8, add_int8}) {}
  std::size_t block() const override { return kInt8Block; }
  std::size_t wire_bytes(std::size_t n) const override { return int8_bytes(n); }
};

}  // namespace

const WireCodec& wire_codec(SumType held, WireFormat wire) {
  static const FloatCodec plain_floats;
  static const FixedCodec plain_fixed;
  static const NarrowCodec bf16({encode_bf16, decode_bf16, add_bf16});
  static const NarrowCodec f16({encode_f16, decode_f16, add_f16});
  static const Int8Codec int8;
  if (held == SumType::fixed64) {
    if (wire == WireFormat::f32) return plain_fixed;
    fail(ExitCode::usage, {.what = "the wire format of an exact sum",
                           .expected = "f32, which sends it as it is",
                           .found = std::string(name(wire)),
                           .remedy = "use f32, or give up exact sums"});
  }
  switch (wire) {
    case WireFormat::f32:
      return plain_floats;
    case WireFormat::bf16:
      return bf16;
    case WireFormat::f16:
      return f16;
    case WireFormat::int8:
      return int8;
  }
  fail(ExitCode::bug, {.what = "wire_codec: an unknown format"});
}

}  // namespace shardlm
