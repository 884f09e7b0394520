// The messages of the host are float32 here: rounding them takes kernels that need a library.
#include "comm/wire_codec.h"

#include <algorithm>

#include "base/error.h"

namespace shardlm {
namespace {

class PlainFloats final : public WireCodec {
 public:
  SumType held() const override { return SumType::f32; }
  std::size_t wire_bytes(std::size_t n) const override { return n * sizeof(float); }
  bool plain() const override { return true; }
  void encode(const std::byte* held, std::size_t n, std::byte* wire) const override {
    std::copy_n(held, wire_bytes(n), wire);
  }
  void decode(const std::byte* wire, std::size_t n, std::byte* held) const override {
    std::copy_n(wire, wire_bytes(n), held);
  }
  void add(const std::byte* wire, std::size_t n, std::byte* held) const override {
    const auto* from = reinterpret_cast<const float*>(wire);
    auto* to = reinterpret_cast<float*>(held);
    for (std::size_t i = 0; i < n; ++i) to[i] += from[i];
  }
};

}  // namespace

const WireCodec& wire_codec(SumType held, WireFormat wire) {
  check(held == SumType::f32 && wire == WireFormat::f32, "gpu-check sums float32 as it is");
  static const PlainFloats plain;
  return plain;
}

}  // namespace shardlm
