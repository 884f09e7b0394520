#include "engine/sampling.h"

#include <fmt/format.h>

#include <cmath>
#include <string>

#include "base/error.h"

namespace shardlm {
namespace {

void require(bool ok, const char* flag, const char* expected, const std::string& found,
             const char* remedy = "") {
  if (ok) return;
  fail(ExitCode::usage,
       {.what = "value", .expected = expected, .found = found, .where = flag, .remedy = remedy});
}

void require_between(double value, double least, double most, const char* flag,
                     const char* expected, const char* remedy = "") {
  require(least <= value && value <= most, flag, expected, fmt::format("{}", value), remedy);
}

}  // namespace

void validate(const SamplingParams& p) {
  require(std::isfinite(p.temperature) && p.temperature >= 0, "--temperature",
          "a finite number from 0 on", fmt::format("{}", p.temperature), "0 is greedy");
  require(p.top_k >= -1, "--top-k", "a whole number from 1 on, or 0 or -1 for no cut",
          fmt::format("{}", p.top_k));
  require_between(p.top_p, 0, 1, "--top-p", "a number from 0 to 1", "1 is no cut");
  require_between(p.min_p, 0, 1, "--min-p", "a number from 0 to 1", "0 is no cut");
  require_between(p.repetition_penalty, kSmallestRepetitionPenalty, kLargestRepetitionPenalty,
                  "--repetition-penalty", "a number above 0 (from 1e-30 to 1e30)",
                  "1 is no penalty");
  require_between(p.presence_penalty, -kLargestPenalty, kLargestPenalty, "--presence-penalty",
                  "a finite number (from -1e30 to 1e30)", "0 is no penalty");
  require_between(p.frequency_penalty, -kLargestPenalty, kLargestPenalty, "--frequency-penalty",
                  "a finite number (from -1e30 to 1e30)", "0 is no penalty");
  require(p.logprobs >= -1, "--logprobs", "a whole number from 0 on, or -1 for none",
          fmt::format("{}", p.logprobs));
}

}  // namespace shardlm
