// From requests to texts: the loop of steps, sampling and stop conditions on the coordinator.
#pragma once

#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "engine/coordinator.h"
#include "engine/scheduler.h"
#include "engine/sequence.h"
#include "io/tokenizer.h"

namespace shardlm {

/// Seconds on a steady clock; tests give their own.
using Clock = std::function<double()>;
double steady_seconds();

/// Called with each piece of text that is ready to be shown.
using OnText = std::function<void(std::size_t sequence, std::string_view text)>;

struct GenerateTiming {
  std::optional<double> ttft_ms;       ///< start of prefill to the run's first id
  std::optional<double> tpot_ms;       ///< mean time between ids of a sequence; needs two ids
  std::optional<double> tokens_per_s;  ///< ids after each sequence's first, over the time from the
                                       ///< run's first id to its last; needs two ids of a sequence
};

struct GenerateSetup {
  std::int64_t n_positions = 0;
  std::int64_t vocab_size = 0;
  std::optional<std::int32_t> eos = {};  ///< the id that ends a text
  const Tokenizer* tokenizer = nullptr;  ///< none: texts stay empty
  std::int64_t block_tokens = 32;
  SchedulerLimits limits = {};
  Clock clock = steady_seconds;
};

/// KV blocks that suffice to run these requests at full batch.
std::int64_t blocks_needed(const std::vector<Request>& requests, const GenerateSetup& setup);

/// Runs all requests to their end; the result's order is the requests'.
std::vector<Sequence> generate(Coordinator& coordinator, const GenerateSetup& setup,
                               std::vector<Request> requests, std::int64_t n_blocks,
                               const OnText& on_text, GenerateTiming& timing);

}  // namespace shardlm
