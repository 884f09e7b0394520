// What sums that are rounded on the way cost in quality: the logits of a fixed text with and
// without the rounding. Every rank compares its own part of the vocabulary; rank 0 joins the parts.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/executor.h"
#include "io/tokenizer.h"

namespace shardlm {

/// The row that stands beside every result of rounded sums.
struct WireQuality {
  std::string asked;         ///< "--wire int8": what rounds
  bool text = true;          ///< the fixed text; false: ids drawn at random
  std::int64_t tokens = 0;   ///< compared
  std::int64_t decoded = 0;  ///< of them passed one by one, as in decoding
  double max_logit_difference = 0;
  double top1_agreement = 1;     ///< share of the rows with the same likeliest id
  double kl = 0;                 ///< mean over the rows of KL(unrounded || rounded), nats
  double perplexity = 0;         ///< of the text, unrounded
  double perplexity_change = 0;  ///< rounded / unrounded - 1
};
/// "quality of --wire int8: max |dlogit| 0.12, top-1 99.2 %, KL 1.3e-04, perplexity +0.02 % (127
/// tokens of the fixed text)"
std::string quality_text(const WireQuality& quality);

/// What one rank knows of a row: of the reference's logits a and the others' b over its ids.
struct LogitComparison {
  double max_a = -std::numeric_limits<double>::infinity(), sum_a = 0;  ///< of exp(a - max_a)
  double max_b = -std::numeric_limits<double>::infinity(), sum_b = 0;
  double weighted = 0;                  ///< sum of exp(a - max_a) (a - b)
  double max_difference = 0;            ///< of |a - b|; not a number if one is not
  std::int32_t top_a = -1, top_b = -1;  ///< global ids; the lowest of equals
  double target_a = 0, target_b = 0;    ///< if the target is here
  std::int32_t has_target = 0, unused = 0;
};
/// Over the ids from `begin` on; `target`: the id that comes next in the text.
LogitComparison compare_logits(std::span<const float> a, std::span<const float> b,
                               std::int32_t begin, std::int32_t target);
/// The numbers of a WireQuality from parts[r][row].
WireQuality join_comparisons(const std::vector<std::vector<LogitComparison>>& parts);

/// What is run.
struct QualityText {
  std::vector<std::int32_t> ids;  ///< one more than are passed
  bool text = true;
};
/// The fixed text by the tokenizer, as far as `capacity` tokens go; without a tokenizer, or where
/// its ids are not the model's, ids drawn by Philox.
QualityText quality_ids(const Tokenizer* tokenizer, std::int64_t vocab_size, std::int64_t capacity);

struct QualitySetup {
  std::int64_t block_tokens = 32;  ///< the cache's blocks from 0 on are free
  std::string asked = {};          ///< see WireQuality
};
/// Collective, after the run: passes the text with and without rounding. `text` counts on rank 0,
/// where the result is. None if there is no room for a token.
std::optional<WireQuality> measure_wire_quality(const Context& context, Executor& executor,
                                                Range vocab_ids, const QualityText& text,
                                                const QualitySetup& setup);

}  // namespace shardlm
