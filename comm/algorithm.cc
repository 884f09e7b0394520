#include "comm/algorithm.h"

#include <array>

namespace shardlm {
namespace {

// In the order of the enumerations.
constexpr std::array kAlgorithms = {
    Algorithm::shm_oneshot,  Algorithm::shm_twoshot, Algorithm::direct, Algorithm::recdbl,
    Algorithm::rabenseifner, Algorithm::ring,        Algorithm::star,   Algorithm::tree,
    Algorithm::two_level,    Algorithm::mpi};
constexpr std::array<std::string_view, kAlgorithms.size()> kAlgorithmNames = {
    "shm-oneshot", "shm-twoshot", "direct", "recdbl",    "rabenseifner",
    "ring",        "star",        "tree",   "two-level", "mpi"};
constexpr std::array kWireFormats = {WireFormat::f32, WireFormat::bf16, WireFormat::f16,
                                     WireFormat::int8};
constexpr std::array<std::string_view, kWireFormats.size()> kWireFormatNames = {"f32", "bf16",
                                                                                "f16", "int8"};

template <class Enum, std::size_t n>
std::optional<Enum> parse(std::string_view name, const std::array<Enum, n>& values,
                          const std::array<std::string_view, n>& names) {
  for (std::size_t i = 0; i < n; ++i) {
    if (names[i] == name) return values[i];
  }
  return std::nullopt;
}

bool in_rank_order(Algorithm algorithm) {
  return algorithm == Algorithm::shm_oneshot || algorithm == Algorithm::shm_twoshot ||
         algorithm == Algorithm::direct || algorithm == Algorithm::star;
}

}  // namespace

std::string_view name(Algorithm algorithm) {
  return kAlgorithmNames[static_cast<std::size_t>(algorithm)];
}

std::string_view name(WireFormat wire) { return kWireFormatNames[static_cast<std::size_t>(wire)]; }

std::string_view name(Exactness exactness) {
  switch (exactness) {
    case Exactness::exact:
      return "exact";
    case Exactness::reordered:
      return "reordered";
    case Exactness::approximate:
      return "approximate";
  }
  return "unknown";
}

std::optional<Algorithm> parse_algorithm(std::string_view name) {
  return parse(name, kAlgorithms, kAlgorithmNames);
}

std::optional<WireFormat> parse_wire_format(std::string_view name) {
  return parse(name, kWireFormats, kWireFormatNames);
}

std::span<const Algorithm> all_algorithms() { return kAlgorithms; }
std::span<const WireFormat> all_wire_formats() { return kWireFormats; }

Exactness exactness(Algorithm algorithm, WireFormat wire, bool fixed_point) {
  if (wire != WireFormat::f32) return Exactness::approximate;
  return fixed_point || in_rank_order(algorithm) ? Exactness::exact : Exactness::reordered;
}

bool needs_one_node(Algorithm algorithm) {
  return algorithm == Algorithm::shm_oneshot || algorithm == Algorithm::shm_twoshot;
}

}  // namespace shardlm
