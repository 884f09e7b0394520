// How long an all-reduce takes over links whose alpha and beta depend on a message's size: its
// rounds one by one. With one segment it is cost_terms() of study/cost_model.h (tested).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "comm/algorithm.h"
#include "study/link_class.h"

namespace shardlm {

/// Adding received bytes, by the size of what is added.
struct GammaClass {
  std::uint64_t to_bytes = 0;
  double s_per_byte = 0;
  std::string level = {};  ///< of the memory: "L1", "RAM"
};
double gamma_s_per_byte(std::span<const GammaClass> gamma, double bytes);

/// Exchanges that wait for each other, `times` alike.
struct MessageRound {
  double times = 1;
  double bytes = 0;         ///< of one message
  double partners = 1;      ///< messages of that size that a rank gets at the same time
  double posted = 0;        ///< messages that cost `o`
  double summed_bytes = 0;  ///< added after each
};

/// None: the MPI library's own, and two levels (whose parts are asked for by themselves).
std::optional<std::vector<MessageRound>> rounds_of(Algorithm algorithm, int ranks, double bytes);

/// `sharers`: ranks whose messages go over the same link at the same time, so that each has its
/// bandwidth divided by so many.
double rounds_s(std::span<const MessageRound> rounds, const LinkClass& link,
                std::span<const GammaClass> gamma, double sharers = 1);
/// Calls f(bytes, times) for the pieces of at most `most` bytes that a message is cut into.
template <class F>
void each_piece(std::size_t bytes, std::size_t most, F&& f) {
  const std::size_t full = bytes / most, rest = bytes % most;
  if (full > 0) f(most, static_cast<double>(full));
  if (rest > 0 || full == 0) f(rest, 1.0);
}

/// Of the above the times that alpha counts.
double rounds_count(std::span<const MessageRound> rounds);

}  // namespace shardlm
