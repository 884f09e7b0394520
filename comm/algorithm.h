// What an all-reduce is made of: an algorithm, what its elements are on the wire, and how much of
// the sum's truth it keeps.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace shardlm {

/// n: bytes of the message, P: ranks; rounds and bytes sent by a rank in brackets.
enum class Algorithm : std::uint8_t {
  shm_oneshot,   ///< shared memory: all read all [1; n written]
  shm_twoshot,   ///< shared memory: each sums a slice, all read the slices [2; n + n/P written]
  direct,        ///< messages: all send all to all [1; (P-1) n]
  recdbl,        ///< recursive doubling [log2 P; n log2 P]
  rabenseifner,  ///< halving, then doubling [2 log2 P; 2 n (P-1)/P]
  ring,          ///< reduce-scatter and all-gather around a ring [2 (P-1); 2 n (P-1)/P]
  star,          ///< to rank 0 and back [2; root (P-1) n, others n]
  tree,          ///< binomial tree to rank 0 and back [2 log2 P; up to n log2 P]
  two_level,     ///< shared memory inside a node, another algorithm between nodes
  mpi,           ///< the MPI library's own
};

/// The element types of a message. A sum is float32 (or 64-bit fixed point) at its ends always.
enum class WireFormat : std::uint8_t {
  f32,   ///< the sum's own type: nothing is lost
  bf16,  ///< rounded to nearest even
  f16,   ///< the same; beyond its range infinite
  int8,  ///< blocks of 32 with a float32 scale
};

/// What a sum is compared with the addends' sum in rank order.
enum class Exactness : std::uint8_t {
  exact,        ///< its bits
  reordered,    ///< the same addends in another order: differs by rounding
  approximate,  ///< the addends were rounded on the way
};

std::string_view name(Algorithm algorithm);  ///< "shm-oneshot"
std::string_view name(WireFormat wire);      ///< "bf16"
std::string_view name(Exactness exactness);  ///< "reordered"
std::optional<Algorithm> parse_algorithm(std::string_view name);
std::optional<WireFormat> parse_wire_format(std::string_view name);
std::span<const Algorithm> all_algorithms();
std::span<const WireFormat> all_wire_formats();

/// Of a sum of floats (`fixed_point`: of integers, whose order does not matter).
Exactness exactness(Algorithm algorithm, WireFormat wire, bool fixed_point);

/// True if the algorithm runs over shared memory alone: all ranks must be on one node.
bool needs_one_node(Algorithm algorithm);

}  // namespace shardlm
