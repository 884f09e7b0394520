// What a collective should cost, and how many there should be: the formulas of
// docs/communication.md.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "comm/algorithm.h"
#include "model/config.h"

namespace shardlm {

/// What a path between ranks costs. With where the numbers are from, since a fit to the very calls
/// that it is compared with proves less than a measurement made before.
struct LinkCost {
  double alpha_s = 0;           ///< a message's start
  double beta_s_per_byte = 0;   ///< its bytes
  double gamma_s_per_byte = 0;  ///< adding received bytes
  double per_message_s = 0;     ///< what a further message at the same time costs its sender
  std::string source;           ///< "tune", "fit to this run's all-reduces"
};

/// A time as a sum of so many of each of LinkCost's parts.
struct CostTerms {
  double rounds = 0;        ///< times alpha
  double moved_bytes = 0;   ///< times beta, on the longest path
  double summed_bytes = 0;  ///< times gamma
  double messages = 0;      ///< times per_message
  double seconds(const LinkCost& link) const;
};

/// Of an all-reduce of n bytes over P ranks; none for algorithms that we cannot say this of: the
/// MPI library's, and two levels (whose parts have costs of their own).
std::optional<CostTerms> cost_terms(Algorithm algorithm, int ranks, double bytes);

/// Bytes that all ranks together send (or write for the others to read) in an all-reduce of n
/// bytes, exact however the message is cut. None: as above.
std::optional<std::uint64_t> total_sent_bytes(Algorithm algorithm, int ranks, std::uint64_t bytes);

/// The all-reduces of a forward pass of so many tokens.
struct ExpectedTraffic {
  std::int64_t all_reduces = 0;  ///< 2 in a layer, 1 after the vocabulary-parallel embedding
  std::uint64_t bytes_each = 0;  ///< tokens x n_embd x 4
  std::uint64_t bytes = 0;
};
ExpectedTraffic expected_traffic(const ModelConfig& config, std::int64_t tokens);

/// An all-reduce that has been timed.
struct TimedSum {
  Algorithm algorithm;
  double bytes = 0;
  double seconds = 0;
};
/// alpha and beta (which then holds beta and gamma) that fit the times best, relative errors
/// squared. None if the calls are of fewer than two different sizes: one cannot tell them apart.
std::optional<LinkCost> fit_link(std::span<const TimedSum> sums, int ranks);

}  // namespace shardlm
