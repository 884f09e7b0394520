#include "model/fake_weights.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numbers>

#include "base/error.h"
#include "base/philox.h"

namespace shardlm {
namespace {

constexpr std::size_t kPatternBytes = std::size_t{4} << 20;
constexpr double kDeviation = 0.02;
constexpr std::uint16_t kOne = 0x3F80;  // bfloat16

// Cut off, not rounded: these are random numbers.
std::uint16_t bfloat16(double x) {
  return static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(static_cast<float>(x)) >> 16);
}

// A page more than a power of two, so that the rows of a matrix do not repeat after a few.
std::size_t pattern_bytes() {
  const std::size_t page = RepeatedMemory::granule();
  return (kPatternBytes / page + 1) * page;
}

// Two normal numbers of two uniform words (Box and Muller).
void put_normals(std::uint32_t a, std::uint32_t b, std::uint16_t* to) {
  const double radius = kDeviation * std::sqrt(-2 * std::log((a + 0.5) * 0x1p-32));
  const double angle = 2 * std::numbers::pi * b * 0x1p-32;
  to[0] = bfloat16(radius * std::cos(angle));
  to[1] = bfloat16(radius * std::sin(angle));
}

std::vector<std::uint16_t> normal_pattern(std::size_t bytes) {
  std::vector<std::uint16_t> values(bytes / sizeof(std::uint16_t));
  for (std::size_t i = 0; i + 4 <= values.size(); i += 4) {
    const auto words = philox4x32_10({static_cast<std::uint32_t>(i / 4), 0, 0, 0}, {});
    put_normals(words[0], words[1], &values[i]);
    put_normals(words[2], words[3], &values[i + 2]);
  }
  return values;
}

std::size_t largest_tensor_bytes(const ModelConfig& c) {
  const std::int64_t largest =
      c.n_embd * std::max({c.vocab_size, c.n_positions, c.n_inner, 3 * c.n_embd});
  return static_cast<std::size_t>(largest) * sizeof(std::uint16_t);
}

// FNV-1a: where a tensor's view begins.
std::size_t hash(const std::string& name) {
  std::uint64_t h = 0xcbf29ce484222325U;
  for (const char c : name) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
  return h;
}

bool is_norm_weight(const std::string& name) {
  return name.ends_with(".weight") && name.find("ln_") != std::string::npos;
}

}  // namespace

FakeWeights::FakeWeights(const ModelConfig& config)
    : pattern_bytes_(pattern_bytes()),
      memory_(std::as_bytes(std::span<const std::uint16_t>(normal_pattern(pattern_bytes_))),
              largest_tensor_bytes(config) + pattern_bytes_),
      ones_(static_cast<std::size_t>(config.n_embd), kOne) {}

HostTensor FakeWeights::tensor(const std::string& name, const std::vector<std::int64_t>& shape) {
  HostTensor t{.name = name, .dtype = DType::bf16, .shape = shape, .bytes = {}, .file = "none"};
  const auto bytes = static_cast<std::size_t>(t.elements()) * sizeof(std::uint16_t);
  if (is_norm_weight(name)) {
    check(bytes == ones_.size() * sizeof(std::uint16_t), "a LayerNorm has n_embd weights");
    t.bytes = std::as_bytes(std::span(ones_));
  } else {
    const std::size_t first = hash(name) % (pattern_bytes_ / sizeof(std::uint16_t));
    t.bytes = memory_.bytes().subspan(first * sizeof(std::uint16_t), bytes);
  }
  return t;
}

HostMatrix FakeWeights::linear(const std::string& name, std::int64_t in, std::int64_t out) {
  return {.tensor = tensor(name, {in, out}), .in = in, .out = out, .rows_are_outputs = false};
}

}  // namespace shardlm
