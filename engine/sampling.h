// What a request may ask of the sampler.
#pragma once

#include <cstdint>

namespace shardlm {

/// In the order in which they act: repetition penalty, presence and frequency penalties,
/// temperature, top-k, top-p, min-p.
struct SamplingParams {
  double temperature = 1;         ///< 0 (and below kGreedyTemperature): greedy, no randomness
  std::int64_t top_k = 0;         ///< most ids kept; 0, -1 or at least the vocabulary: no cut
  double top_p = 1;               ///< ids kept until their mass reaches this; at least one
  double min_p = 0;               ///< ids kept from this share of the best one's probability on
  double repetition_penalty = 1;  ///< Hugging Face's rule: positive logits / it, others * it, for
                                  ///< each id of prompt and continuation once
  double presence_penalty = 0;    ///< subtracted from the logits of ids of the continuation
  double frequency_penalty = 0;   ///< the same, times the number of occurrences
  std::uint64_t seed = 0;
  int logprobs = -1;  ///< alternatives to report with each token; -1: none
};

/// Temperatures below this count as 0: logits divided by them could leave the range of doubles.
inline constexpr double kGreedyTemperature = 1e-30;

/// Penalties stand in float32 where they are applied; these keep them and their sums in range.
inline constexpr double kSmallestRepetitionPenalty = 1e-30, kLargestRepetitionPenalty = 1e30;
inline constexpr double kLargestPenalty = 1e30;  ///< of either sign, presence and frequency

/// Error(ExitCode::usage) that names the flag, the allowed range and the value. Refused: NaN and
/// infinity anywhere; temperature < 0; top_k < -1; top_p and min_p outside [0, 1]; a repetition
/// penalty that is not above 0; penalties beyond the limits above; logprobs < -1.
void validate(const SamplingParams& params);

}  // namespace shardlm
